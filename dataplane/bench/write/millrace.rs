//! Millrace's release build.

use std::{error::Error, fs, path::Path, process::Command};

use millrace_bench::process::{Background, free_port};

use crate::{disk::Disk, server::Server};

/// How many requests of a connection are under way at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pipeline {
    /// As Millrace comes.
    Default,
    /// One: the serial model.
    Serial,
}

/// The write-ahead log.
const WAL_BYTES: u64 = 4 << 30;
/// Writes under way at once.
const WAL_DEPTH: u32 = 32;

/// Starts a broker whose data is below `folder`, which is empty. Its objects go to a folder there
/// too: uploads are part of what is measured.
pub(crate) fn start(
    pipeline: Pipeline,
    disk: &Disk,
    folder: &Path,
) -> Result<Server, Box<dyn Error>> {
    let port = free_port()?;
    let program = std::env::current_exe()?.with_file_name("millrace");
    if !program.exists() {
        return Err(format!("{} is not built", program.display()).into());
    }
    fs::create_dir(folder.join("objects"))?;
    let properties = folder.join("server.properties");
    fs::write(&properties, properties_of(pipeline, disk, port, folder))?;
    let mut broker = Command::new(program);
    broker.args(["broker", "--config"]).arg(&properties);
    let log = folder.join("broker.log");
    let process = Background::start(&mut broker, "Millrace", &log, false)?;
    Server::answering(process, port)
}

fn properties_of(pipeline: Pipeline, disk: &Disk, port: u16, folder: &Path) -> String {
    let pipeline = match pipeline {
        Pipeline::Default => "",
        Pipeline::Serial => "network.pipeline.depth=1\n",
    };
    let folder = folder.display();
    let shape = disk.wal_parameters();
    format!(
        "node.id=0
listeners=PLAINTEXT://127.0.0.1:{port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
admin.listener=none
data.dir={folder}/data
s3.wal.path=0@file://{folder}/wal?capacity={WAL_BYTES}&iodepth={WAL_DEPTH}{shape}
s3.data.buckets=0@file://{folder}/objects
auto.create.topics.enable=false
{pipeline}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serial_model_and_a_slow_disk_are_settings() {
        let text = |pipeline, disk| properties_of(pipeline, &disk, 1, Path::new("/w"));
        let plain = text(Pipeline::Default, Disk::OWN);
        assert!(!plain.contains("pipeline.depth") && !plain.contains("shape"));
        let slow = text(Pipeline::Serial, Disk::ebs_like(5));
        assert!(slow.contains("\nnetwork.pipeline.depth=1\n"));
        let shape = "&shape_write_ms=5&shape_iops=4000&shape_bandwidth=1048576000\n";
        assert!(slow.contains(shape), "{slow}");
    }
}
