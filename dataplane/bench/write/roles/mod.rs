//! The processes that the benchmark consists of. Each prints one line of JSON when it ends;
//! `README.md` beside this file lists their flags and keys.
//!
//! - `light`: a load generator that costs far less than what it drives
//! - `sink`: receives and writes, no protocol: the physical limit of a broker
//! - `acknowledge`: answers Kafka's clients and keeps nothing: their own limit
//! - `device`: writes only: the physical limit of the sink
//! - `flush`: writes through the page cache and flushes, as Kafka does

mod acknowledge;
mod device;
mod flags;
mod flush;
mod light;
mod schedule;
mod sink;
mod volume;

use std::error::Error;

use flags::Flags;

/// MB of all figures: what Kafka's own tools count so.
const MIB: f64 = (1 << 20) as f64;

/// Runs one role, named by the first argument, in this process.
pub(crate) fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let (role, rest) = match arguments.split_first() {
        Some((role, rest)) => (role.as_str(), rest),
        None => ("", arguments),
    };
    let mut flags = Flags::parse(rest)?;
    let shown = match role {
        "light" => light::run(&mut flags)?,
        "sink" => sink::run(&mut flags)?,
        "acknowledge" => acknowledge::run(&mut flags)?,
        "device" => device::run(&mut flags)?,
        "flush" => flush::run(&mut flags)?,
        _ => return Err(format!("no such role: {role:?}").into()),
    };
    println!("{shown}");
    Ok(())
}
