//! The processes that the benchmark consists of.

use std::error::Error;

/// Runs one role, named by the first argument, in this process.
pub(crate) fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let role = arguments.first().map_or("", String::as_str);
    Err(format!("no such role: {role:?}").into())
}
