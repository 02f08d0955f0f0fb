//! A drill on an S3 server behind the proxy that shows faults.

use serde_json::Value;

use super::{DrillFiles, Proxy, conclude};
use crate::{
    broker::{Home, Settings, free_address},
    s3_server::{S3Server, bucket_uri, program},
};

/// Starts the server and the proxy, creates the broker's home with the `settings` for the bucket's
/// address behind the proxy, and runs the drill, which returns its report and its failures.
///
/// # Errors
/// As [`conclude`] says, or something could not be started.
pub fn with_faulty_bucket(
    files: &DrillFiles,
    seed: u64,
    s3_server: Option<&std::path::Path>,
    settings: impl FnOnce(String) -> Settings,
    run: impl FnOnce(&Home, &Proxy, &S3Server) -> Result<(Value, Vec<String>), String>,
) -> Result<(), String> {
    println!("seed {seed}");
    let s3_program = program(s3_server).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let server_address = free_address()?;
    let proxy = runtime.block_on(Proxy::start(server_address, seed));
    let proxy = proxy.map_err(|error| format!("the proxy: {error}"))?;
    let settings = settings(bucket_uri(proxy.address()));
    let home = Home::create(&files.program, &files.work, &settings)?;
    let folder = home.folder().join("bucket");
    let server =
        S3Server::start(&s3_program, server_address, &folder).map_err(|error| error.to_string())?;
    let outcome = run(&home, &proxy, &server);
    drop(server);
    conclude(&home, seed, files.json.as_deref(), outcome)
}
