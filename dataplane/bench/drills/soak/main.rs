//! `npm run drill:soak`: a day in twenty minutes. Every threshold and interval of the storage engine
//! is small, clients write and read all the time, and the bucket and the broker fail.
//!
//! - `soak`: the drill itself, phase by phase
//! - `chaos`: what fails, and the moments at which the broker is killed
//! - `followers`: consumers at the end of the log, and ones that begin at its start again and again
//! - `memory`: whether the broker's memory grows
//! - `settled`: at the end: what is stored, what retention kept, and whether all of it is there
//!
//! Producers, what they were promised, whether it was kept, and the proxy before the bucket:
//! `millrace_bench::drill`.

mod arguments;
mod chaos;
mod followers;
mod memory;
mod settled;
mod soak;

use std::process::ExitCode;

use millrace_bench::{
    broker::{Home, free_address},
    drill::{Proxy, conclude, exit_code},
    s3_server::{S3Server, bucket_uri, fetch},
};

use crate::arguments::{Plan, USAGE};

/// The bucket's name.
const BUCKET: &str = "drill";

fn main() -> ExitCode {
    let done = match Plan::from_env() {
        Ok(Some(plan)) => drill(&plan),
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => Err(error),
    };
    exit_code("drill:soak", done)
}

/// Runs the drill in a folder of its own, which is kept where it fails.
fn drill(plan: &Plan) -> Result<(), String> {
    println!("seed {}", plan.seed);
    let program = match &plan.s3_server {
        Some(program) => program.clone(),
        None => fetch().map_err(|error| error.to_string())?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let server_address = free_address()?;
    let proxy = runtime.block_on(Proxy::start(server_address, plan.seed));
    let proxy = proxy.map_err(|error| format!("the proxy: {error}"))?;
    let settings = soak::settings(bucket_uri(proxy.address(), BUCKET));
    let home = Home::create(&plan.program, &plan.work, &settings)?;
    let folder = home.folder().join("bucket");
    let server = S3Server::start(&program, server_address, &folder, BUCKET)
        .map_err(|error| error.to_string())?;
    let report = soak::run(plan, &home, &proxy, &bucket_uri(server.address(), BUCKET));
    drop(server);
    conclude(&home, plan.seed, plan.json.as_deref(), report)
}
