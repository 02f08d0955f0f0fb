//! `faulty-s3`: an S3 server that fails on purpose, for drills that are not written in Rust.
//!
//! Prints the value of `s3.data.buckets` and serves until its standard input ends. Frequent faults,
//! silence and normal service alternate. At the end it prints the requests by kind and outcome.

use std::{io, path::PathBuf, process::ExitCode, time::Duration};

use millrace_bench::{
    broker::free_address,
    command_line::{exit_code, from_callers_folder},
    drill::{Faults, Proxy},
    s3_server::{S3Server, bucket_uri, program},
};
use tokio::time::sleep;

const USAGE: &str = "\
usage: faulty-s3 --folder DIR [--seed N] [--s3-server FILE]
  --folder DIR      where the objects are
  --seed N          reproduces the faults, not the machine's timing (1)
  --s3-server FILE  a versitygw program; by default one is built with Go";

const FAULTY: Duration = Duration::from_secs(20);
const SILENT: Duration = Duration::from_secs(5);
const CALM: Duration = Duration::from_secs(15);

struct Arguments {
    folder: PathBuf,
    seed: u64,
    s3_server: Option<PathBuf>,
}

fn main() -> ExitCode {
    exit_code("faulty-s3", run())
}

fn run() -> Result<(), String> {
    let arguments = parse(std::env::args().skip(1))?;
    let program = program(arguments.s3_server.as_deref()).map_err(|error| error.to_string())?;
    let address = free_address()?;
    let server = S3Server::start(&program, address, &arguments.folder);
    let _server = server.map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let proxy = Proxy::start(address, arguments.seed).await;
        let proxy = proxy.map_err(|error| format!("the proxy: {error}"))?;
        println!("{}", bucket_uri(proxy.address()));
        let ended = tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink()));
        tokio::select! {
            () = fail_in_turns(&proxy) => {}
            _ = ended => {}
        }
        println!("{}", proxy.counts().to_json());
        Ok(())
    })
}

async fn fail_in_turns(proxy: &Proxy) {
    loop {
        for (faults, time) in [
            (Faults::FREQUENT, FAULTY),
            (Faults::SILENCE, SILENT),
            (Faults::NONE, CALM),
        ] {
            proxy.set(faults);
            sleep(time).await;
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let (mut folder, mut seed, mut s3_server) = (None, 1, None);
    while let Some(argument) = arguments.next() {
        let value = arguments.next();
        let accepted = match (argument.as_str(), value) {
            ("--folder", Some(value)) => {
                folder = Some(from_callers_folder(value));
                true
            }
            ("--s3-server", Some(value)) => {
                s3_server = Some(from_callers_folder(value));
                true
            }
            ("--seed", Some(value)) => value.parse().map(|value| seed = value).is_ok(),
            _ => false,
        };
        if !accepted {
            return Err(format!(
                "unknown option or wrong value: {argument}\n{USAGE}"
            ));
        }
    }
    let folder = folder.ok_or_else(|| format!("--folder is missing\n{USAGE}"))?;
    Ok(Arguments {
        folder,
        seed,
        s3_server,
    })
}
