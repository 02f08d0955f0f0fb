//! `npm run drill:s3`: the bucket fails on purpose, for minutes, and then is silent, while clients
//! produce.
//!
//! - `outage`: the drill itself, phase by phase
//! - `objects`: whether every object is sound, and all of them together hold everything
//!
//! Clients, what they were promised, whether it was kept, and the proxy that shows the faults:
//! `millrace_bench::drill`.

mod arguments;
mod objects;
mod outage;

use std::process::ExitCode;

use millrace_bench::{
    broker::{Home, free_address},
    drill::{Proxy, conclude, exit_code},
    s3_server::{S3Server, bucket_uri, fetch},
};

use crate::arguments::{Command, Plan, USAGE};

/// The bucket's name.
const BUCKET: &str = "drill";

fn main() -> ExitCode {
    let done = match Command::from_env() {
        Ok(Command::Help) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Ok(Command::Run(plan)) => drill(&plan),
        Err(error) => Err(error),
    };
    exit_code("drill:s3", done)
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
    let through_proxy = bucket_uri(proxy.address(), BUCKET);
    let settings = outage::settings(plan, through_proxy);
    let home = Home::create(&plan.program, &plan.work, &settings)?;
    let folder = home.folder().join("bucket");
    let server = S3Server::start(&program, server_address, &folder, BUCKET)
        .map_err(|error| error.to_string())?;
    let report = outage::run(plan, &home, &proxy, &server);
    drop(server);
    let outcome = report.map(|report| (report, Vec::new()));
    conclude(&home, plan.seed, plan.json.as_deref(), outcome)
}
