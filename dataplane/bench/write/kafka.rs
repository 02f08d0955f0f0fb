//! Apache Kafka from Maven Central: a single broker in KRaft mode.

use std::{error::Error, fs, path::Path};

use millrace_bench::{
    kafka::{Version, format_data, java, single_broker_properties},
    process::{Background, free_port},
};

use crate::{
    disk::{Disk, shim_report},
    server::Server,
};

/// Whether every batch is durable before it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Flush {
    EachMessage,
    /// The same, but on a slow disk only the flushes of segments are slow, those of the mapped
    /// indexes are not: fewer slow writes for a batch than there really are.
    EachMessageIndexesFree,
    /// As Kafka comes: when the kernel likes.
    Never,
}

/// The broker's heap; the default of Kafka's start script.
const HEAP: [&str; 2] = ["-Xms1G", "-Xmx1G"];

/// Starts a broker whose data is below `folder`, which is empty.
pub(crate) fn start(
    version: Version,
    flush: Flush,
    disk: &Disk,
    folder: &Path,
) -> Result<Server, Box<dyn Error>> {
    let (port, controller_port) = (free_port()?, free_port()?);
    let data = folder.join("data");
    let properties = folder.join("server.properties");
    fs::write(
        &properties,
        properties_of(flush, port, controller_port, &data),
    )?;
    format_data(version, &properties, &folder.join("format.log"))?;
    let mut broker = java(version, &HEAP)?;
    broker.arg("kafka.Kafka").arg(&properties);
    for (name, value) in disk.shim_environment(folder)? {
        broker.env(name, value);
    }
    if flush == Flush::EachMessageIndexesFree {
        broker.env("SHIM_FREE_MSYNC", "1");
    }
    let name = format!("Apache Kafka {}", version.number());
    let log = folder.join("broker.log");
    let process = Background::start(&mut broker, &name, &log, false)?;
    let mut server = Server::answering(process, port)?;
    server.flush_report = disk.shape.map(|_| shim_report(folder));
    Ok(server)
}

fn properties_of(flush: Flush, port: u16, controller_port: u16, data: &Path) -> String {
    let flush = match flush {
        Flush::EachMessage | Flush::EachMessageIndexesFree => "log.flush.interval.messages=1\n",
        Flush::Never => "",
    };
    single_broker_properties(port, controller_port, data) + flush
}
