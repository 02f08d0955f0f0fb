//! Millrace's release build.

use std::{error::Error, fs, path::Path, process::Command};

use millrace_bench::process::{Background, free_port};
use tempfile::TempDir;

use crate::{disk::Disk, server::Server};

/// What differs between the brokers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Setup {
    /// The default settings; objects are on the measured disk.
    Default,
    /// One request of a connection at a time: the serial model.
    Serial,
    /// Objects are in memory, as a bucket takes nothing from the disk of a log.
    ObjectsInMemory,
}

/// The write-ahead log.
const WAL_BYTES: u64 = 4 << 30;
/// Writes under way at once.
const WAL_DEPTH: u32 = 32;
/// A file system in memory.
pub(crate) const MEMORY: &str = "/dev/shm";

/// Starts a broker whose data is below `folder`, which is empty. It uploads objects while it is measured.
pub(crate) fn start(setup: Setup, disk: &Disk, folder: &Path) -> Result<Server, Box<dyn Error>> {
    let port = free_port()?;
    let program = std::env::current_exe()?.with_file_name("millrace");
    if !program.exists() {
        return Err(format!("{} is not built", program.display()).into());
    }
    let memory = match setup {
        Setup::Default | Setup::Serial => None,
        Setup::ObjectsInMemory => Some(TempDir::with_prefix_in("millrace-objects-", MEMORY)?),
    };
    let objects = match &memory {
        Some(memory) => memory.path().to_owned(),
        None => folder.join("objects"),
    };
    fs::create_dir_all(&objects)?;
    let properties = folder.join("server.properties");
    fs::write(
        &properties,
        properties_of(setup, disk, port, folder, &objects),
    )?;
    let mut broker = Command::new(program);
    broker.args(["broker", "--config"]).arg(&properties);
    let log = folder.join("broker.log");
    let process = Background::start(&mut broker, "Millrace", &log, false)?;
    let mut server = Server::answering(process, port)?;
    server.memory = memory;
    Ok(server)
}

fn properties_of(setup: Setup, disk: &Disk, port: u16, folder: &Path, objects: &Path) -> String {
    let pipeline = match setup {
        Setup::Default | Setup::ObjectsInMemory => "",
        Setup::Serial => "network.pipeline.depth=1\n",
    };
    let folder = folder.display();
    let objects = objects.display();
    let shape = disk.wal_parameters();
    format!(
        "node.id=0
listeners=PLAINTEXT://127.0.0.1:{port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
admin.listener=none
data.dir={folder}/data
s3.wal.path=0@file://{folder}/wal?capacity={WAL_BYTES}&iodepth={WAL_DEPTH}{shape}
s3.data.buckets=0@file://{objects}
auto.create.topics.enable=false
{pipeline}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serial_model_and_a_slow_disk_are_settings() {
        let (folder, objects) = (Path::new("/w"), Path::new("/o"));
        let text = |setup, disk| properties_of(setup, &disk, 1, folder, objects);
        let plain = text(Setup::Default, Disk::OWN);
        assert!(!plain.contains("pipeline.depth") && !plain.contains("shape"));
        assert!(plain.contains("\ns3.data.buckets=0@file:///o\n"), "{plain}");
        let slow = text(Setup::Serial, Disk::ebs_like(5));
        assert!(slow.contains("\nnetwork.pipeline.depth=1\n"));
        let shape = "&shape_write_ms=5&shape_iops=4000&shape_bandwidth=1048576000\n";
        assert!(slow.contains(shape), "{slow}");
    }
}
