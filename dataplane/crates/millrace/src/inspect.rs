//! `millrace inspect`: what is stored, as JSON lines on standard output.

mod audit;
mod objects;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use millrace_model::{ObjectId, StreamId};
use millrace_objects::{ObjectKey, ObjectReader, ObjectStorage};
use millrace_stream::EntryHeader;
use millrace_time::{SystemClock, SystemRandom};
use millrace_wal::device::DeviceConfig;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use self::audit::AuditOptions;
use crate::{command::Target, runtime};

/// Objects of one prefix that are looked through for the one that is asked for; a prefix holds the
/// ids that end in the same 16 bits.
const LISTED_MAX: usize = 100_000;

/// What was to be shown cannot be.
#[derive(Debug, thiserror::Error)]
enum InspectError {
    #[error("{0}: there is no such file or device")]
    NoWal(String),
    #[error("{0}")]
    Device(#[from] millrace_wal::device::DeviceError),
    #[error("{0}")]
    Wal(#[from] millrace_wal::OpenError),
    #[error("{0}")]
    Bucket(#[from] millrace_objects::OpenError),
    #[error("{0}")]
    List(#[from] millrace_objects::ListError),
    #[error("{0}: there is no such object in the bucket")]
    NoObject(ObjectKey),
    #[error("{0}")]
    Object(#[from] millrace_objects::ReadError),
    #[error("{0} of the objects are not sound")]
    Unsound(u64),
    #[error("{0} blocks or objects are corrupt")]
    Corrupt(u64),
    #[error("{0} records of the write-ahead log are corrupt")]
    CorruptRecords(u64),
    #[error("{}: {}", path.display(), with_causes(source))]
    Metadata {
        path: PathBuf,
        source: millrace_meta::StoreFailure,
    },
    #[error("{}: this is the metadata of {stored}, not of {asked}", path.display())]
    OtherCluster {
        path: PathBuf,
        stored: String,
        asked: String,
    },
    #[error("{0} objects that the metadata refers to are not in the bucket as they should be")]
    Missing(usize),
    #[error("{0} objects are in the bucket that the metadata does not know")]
    Orphans(usize),
}

/// An error and all its causes in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

impl InspectError {
    /// What the process exits with: data is missing; there is too much; or something else.
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Missing(_) => ExitCode::from(2),
            Self::Orphans(_) => ExitCode::from(3),
            _ => ExitCode::FAILURE,
        }
    }
}

pub(crate) fn run(target: &Target) -> ExitCode {
    let runtime = match runtime::build_or_exit(Builder::new_current_thread()) {
        Ok(runtime) => runtime,
        Err(code) => return code,
    };
    let shown = runtime.block_on(async {
        match target {
            Target::Wal { path } => inspect_wal(path).await,
            Target::Objects {
                bucket,
                cluster,
                audit: true,
                metadata: Some(metadata),
                json,
                ..
            } => {
                let options = AuditOptions {
                    metadata: metadata.clone(),
                    json: *json,
                };
                audit::audit(bucket, cluster, &options).await
            }
            Target::Objects {
                bucket,
                cluster,
                verify,
                ..
            } => objects::inspect(bucket, cluster, *verify).await,
            Target::Object {
                bucket,
                cluster,
                object,
            } => inspect_object(bucket, cluster, ObjectId(*object)).await,
            Target::Stream {
                bucket,
                cluster,
                stream,
            } => objects::inspect_stream(bucket, cluster, StreamId(*stream)).await,
        }
    });
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("millrace: {error}");
            error.exit_code()
        }
    }
}

fn print(line: &Value) {
    println!("{line}");
}

async fn inspect_wal(path: &Path) -> Result<(), InspectError> {
    let length = path
        .metadata()
        .map_err(|_| InspectError::NoWal(path.display().to_string()))?;
    let device = millrace_wal::device::open_device(path, &DeviceConfig::new(length.len()))?;
    let Some(log) = millrace_wal::inspect(device).await? else {
        print(&json!({ "path": path.display().to_string(), "blank": true }));
        return Ok(());
    };
    print(&json!({
        "path": path.display().to_string(),
        "capacity_bytes": log.capacity,
        "wal_id": format!("{:016x}", log.identity.wal_id),
        "cluster_id": log.identity.owner.as_ref().map(|owner| &owner.cluster_id),
        "node_id": log.identity.owner.as_ref().map(|owner| owner.node_id),
        "generation": log.identity.owner.as_ref().map(|owner| owner.generation),
        "metadata_revision": log.identity.revision,
        "header_generation": log.generation,
        "session": log.session,
        "closed_cleanly": log.clean,
        "trim": log.trim,
        "next": log.next,
        "chunks": log.chunks,
        "records": log.records,
        "payload_bytes": log.payload_bytes,
        "verified_bytes": log.verified_bytes,
        "holes": log.holes,
        "directories_damaged": log.directories_damaged,
        "records_damaged": log.records_damaged,
    }));
    for record in &log.damaged {
        let owner = EntryHeader::of(&record.head);
        print(&json!({
            "damaged_at": record.range.start,
            "payload_bytes": record.payload_bytes,
            "stream": owner.map(|owner| owner.stream.get()),
            "base_offset": owner.map(|owner| owner.base_offset),
            "offsets": owner.map(|owner| owner.count),
        }));
    }
    match log.records_damaged {
        0 => Ok(()),
        damaged => Err(InspectError::CorruptRecords(damaged)),
    }
}

async fn inspect_object(bucket: &str, cluster: &str, id: ObjectId) -> Result<(), InspectError> {
    let storage = ObjectStorage::open(bucket, SystemClock::shared(), SystemRandom::shared())?;
    let key = ObjectKey::of(cluster, id);
    let prefix = key
        .as_str()
        .rsplit_once('/')
        .map_or("", |(prefix, _)| prefix);
    let listed = storage.list(prefix, None, LISTED_MAX).await?;
    let found = listed.into_iter().find(|listed| listed.key == key);
    let size = found
        .ok_or_else(|| InspectError::NoObject(key.clone()))?
        .size;
    let reader = ObjectReader::open(&storage, key.clone(), size).await?;
    let blocks = reader.blocks();
    print(&json!({ "key": key.as_str(), "size_bytes": size, "blocks": blocks.len() }));
    let mut corrupt = 0;
    for block in blocks {
        let (line, is_sound) = objects::checked(&storage, &reader, block).await?;
        print(&line);
        corrupt += u64::from(!is_sound);
    }
    match corrupt {
        0 => Ok(()),
        corrupt => Err(InspectError::Corrupt(corrupt)),
    }
}
