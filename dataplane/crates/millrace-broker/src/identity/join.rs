//! Storage of a broker whose metadata other brokers share.
//!
//! Metadata, log and bucket have to agree as they do for a broker that is alone. What the database says cannot be older than
//! what this broker has seen, and which log belongs to a node is decided where the node joins: in one transaction, which
//! refuses a log that lacks records.

use std::{sync::Arc, time::Duration};

use millrace_cluster::{Lease, Membership};
use millrace_meta::{
    BrokerEndpoint, BrokerState, ClusterStore as _, JoinError, Joining, MetaStore as _,
    StoreFailure,
    postgres::{OpenError, PostgresMeta, PostgresOptions},
};
use millrace_model::{Classified as _, NodeEpoch, NodeId};
use millrace_objects::ObjectStorage;
use millrace_stream::RecoveredLog;
use millrace_wal::{
    ScannedWal, UnopenedWal, Wal, WalConfig, WalIdentity, WalOwner, device::BlockDevice,
};
use tokio::time::timeout;

use super::{
    claim::{claim_bucket, generate_cluster_id},
    mismatch::{Age, Mismatch},
    probe::{BUCKET_WAIT_MAX, BucketProbeError, BucketSilent, Scanned, read_mark},
};
use crate::{
    config::{BrokerConfig, ClusterConfig},
    log_device::{bring_own_volume, require_fence, wal_config, wal_device, wal_fence},
    storage::{Seams, StorageError},
};

/// The pause before the database or the bucket is asked again, or whether the takeover of the log is done.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// How long a start waits for the database.
const DATABASE_WAIT: Duration = Duration::from_secs(60);

/// Storage that belongs to this start.
pub(crate) struct Joined {
    pub(crate) meta: Arc<PostgresMeta>,
    pub(crate) membership: Membership,
    pub(crate) cluster_id: String,
    pub(crate) wal: Wal,
    pub(crate) recovered: RecoveredLog,
}

/// Joins the cluster, and opens the log that belongs to the node.
///
/// # Errors
/// Before the parts have been found to belong together, nothing has changed.
pub(crate) async fn join(
    (config, cluster): (&BrokerConfig, &ClusterConfig),
    endpoints: Vec<BrokerEndpoint>,
    bucket: &ObjectStorage,
    seams: &Seams,
) -> Result<Joined, StorageError> {
    let uri = &config.storage.wal;
    let meta = Arc::new(open_database(config, cluster).await?);
    let is_adopted = async || is_being_adopted(&meta, config.node_id).await;
    bring_own_volume(config, seams, is_adopted).await?;
    require_fence(uri, seams)?;
    let device = wal_device(uri, seams).await?;
    // The id of a blank log is generated here, once.
    let log_config = wal_config(uri, seams);
    let found = UnopenedWal::read(Arc::clone(&device), log_config.clone()).await?;
    let (identity, log_id) = (found.identity(), found.wal_id());
    drop(found);
    let cluster_id = agree(config, &meta, identity.as_ref(), bucket, seams).await?;
    let secret = broker_secret(&meta).await?;
    let joining = Joining {
        node: config.node_id,
        endpoints,
        rack: config.rack.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        log: uri.to_string(),
        log_id,
    };
    let epoch = join_patiently(&meta, &joining).await?;
    let lease = Lease::keep(
        Arc::clone(&meta) as Arc<_>,
        epoch,
        cluster.session_timeout,
        (seams.clock.clone(), &seams.tasks),
    );
    not_behind(identity.as_ref(), epoch)?;
    let owner = WalOwner {
        cluster_id: cluster_id.clone(),
        node_id: config.node_id,
        generation: epoch,
    };
    let scanned = fence_and_scan(config, (device, log_config), epoch, seams).await?;
    known_streams(&meta, &scanned).await?;
    let Scanned { log, recovered, .. } = scanned;
    let wal = log.open(Some(owner), seams.clock.clone()).await?;
    let membership = Membership {
        store: Arc::clone(&meta) as Arc<_>,
        node: config.node_id,
        epoch,
        secret,
        session_timeout: cluster.session_timeout,
        lease,
    };
    Ok(Joined {
        meta,
        membership,
        cluster_id,
        wal,
        recovered,
    })
}

/// Whether a broker that runs is taking over the node's log.
async fn is_being_adopted(meta: &PostgresMeta, node: NodeId) -> Result<bool, StorageError> {
    let brokers = meta.brokers().await?;
    let own = brokers.iter().find(|broker| broker.joined.node == node);
    let Some(BrokerState::Fenced { adopter: Some(by) }) = own.map(|own| own.state) else {
        return Ok(false);
    };
    let adopter = brokers.iter().find(|broker| broker.epoch == by);
    Ok(adopter.is_some_and(|adopter| adopter.state == BrokerState::Active))
}

/// Connects to the database, which may be failing over.
async fn open_database(
    config: &BrokerConfig,
    cluster: &ClusterConfig,
) -> Result<PostgresMeta, StorageError> {
    let options = PostgresOptions {
        retired_retention: config.storage.background.delete_retention,
        lease_ttl: cluster.session_timeout,
        ..PostgresOptions::default()
    };
    let connecting = async {
        loop {
            match PostgresMeta::open(&cluster.database_url, options).await {
                Err(OpenError::Store(error)) if error.class().is_transient() => {
                    tracing::warn!(%error, "waiting for the metadata database");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                opened => return opened,
            }
        }
    };
    let opened = timeout(DATABASE_WAIT, connecting).await;
    opened
        .map_err(|_| StorageError::DatabaseSilent(DATABASE_WAIT))?
        .map_err(StorageError::Database)
}

/// The secret is there as soon as the cluster has an id.
async fn broker_secret(meta: &PostgresMeta) -> Result<Arc<str>, StorageError> {
    let secret = meta.broker_secret().await?;
    let missing = || StoreFailure::Corrupt("the cluster has no id".to_owned());
    Ok(secret.ok_or_else(missing)?.into())
}

/// Compares settings, database, log and bucket, and marks the bucket. Gives the cluster's id.
async fn agree(
    config: &BrokerConfig,
    meta: &PostgresMeta,
    log: Option<&WalIdentity>,
    bucket: &ObjectStorage,
    seams: &Seams,
) -> Result<String, StorageError> {
    let uri = &config.storage.bucket;
    let silent = |source| StorageError::BucketSilent {
        uri: uri.to_string(),
        source,
    };
    let owner = log.and_then(|log| log.owner.as_ref());
    if meta.brokers().await?.is_empty() {
        let used = match owner {
            Some(owner) => Some(format!(
                "the write-ahead log is that of node {} of the cluster {}",
                owner.node_id, owner.cluster_id
            )),
            None => {
                let asked = timeout(BUCKET_WAIT_MAX, first_object(bucket)).await;
                let object = asked.unwrap_or(Err(BucketSilent::TimedOut(BUCKET_WAIT_MAX)));
                let object = object.map_err(silent)?;
                object.map(|object| format!("the bucket has objects ({object})"))
            }
        };
        if let Some(used) = used {
            return Err(Mismatch::BlankDatabase { used }.into());
        }
    }
    let configured = config.cluster_id.clone();
    let default = configured.clone();
    let default = default.unwrap_or_else(|| generate_cluster_id(&seams.random));
    let stored = meta.cluster_id(&default).await?;
    if let Some(configured) = configured
        && configured != stored
    {
        return Err(Mismatch::DatabaseOfAnother { configured, stored }.into());
    }
    if let Some(found) = owner
        && (found.cluster_id != stored || found.node_id != config.node_id)
    {
        let (node_id, found) = (config.node_id, found.clone());
        let cluster_id = stored;
        return Err(Mismatch::WalOfAnother {
            cluster_id,
            node_id,
            found,
        }
        .into());
    }
    claim_patiently(bucket, config, &stored).await?;
    Ok(stored)
}

async fn first_object(bucket: &ObjectStorage) -> Result<Option<String>, BucketSilent> {
    match read_mark(bucket).await {
        Ok(_) => {}
        Err(BucketProbeError::Silent(silent)) => return Err(silent),
        // Claiming the bucket says what is wrong.
        Err(BucketProbeError::Mismatch(_)) => return Ok(None),
    }
    // Objects' keys begin with hexadecimal digits, so they come before everything else of ours.
    let listed = bucket.list("", None, 1).await?;
    let first = listed.into_iter().map(|listed| listed.key);
    let mut objects = first.filter(|key| key.object_id().is_some());
    Ok(objects.next().map(|key| key.to_string()))
}

/// Marks the bucket as the cluster's. A broker that cannot read the bucket cannot serve: what was acknowledged before it
/// stopped, another broker takes over, which needs the bucket as well.
async fn claim_patiently(
    bucket: &ObjectStorage,
    config: &BrokerConfig,
    cluster_id: &str,
) -> Result<(), StorageError> {
    loop {
        match claim_bucket(bucket, &config.storage.bucket, cluster_id).await {
            Err(error) if error.is_bucket_failure() => {
                tracing::warn!(%error, "waiting for the bucket");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            claimed => return claimed,
        }
    }
}

/// Joins as soon as no other broker is taking over the node's log.
async fn join_patiently(meta: &PostgresMeta, joining: &Joining) -> Result<NodeEpoch, StorageError> {
    let mut told = false;
    loop {
        match meta.join(joining).await {
            Ok(epoch) => return Ok(epoch),
            Err(error @ JoinError::OtherLog { .. }) => return Err(StorageError::Join(error)),
            Err(error) => {
                if !told {
                    tracing::warn!(%error, "waiting to join the cluster");
                    told = true;
                }
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }
}

/// A database that gives out epochs that the log has seen already is older than the log.
fn not_behind(log: Option<&WalIdentity>, epoch: NodeEpoch) -> Result<(), Mismatch> {
    let Some(owner) = log.and_then(|log| log.owner.as_ref()) else {
        return Ok(());
    };
    if owner.generation < epoch {
        return Ok(());
    }
    let of = |generation| Age {
        generation,
        revision: 0,
    };
    Err(Mismatch::MetadataBehindWal {
        metadata: of(epoch),
        wal: of(owner.generation),
    })
}

/// Raises the log's fence to this start, and only then looks at what it holds: another broker may have taken it over and
/// given it back meanwhile.
async fn fence_and_scan(
    config: &BrokerConfig,
    (device, log_config): (Arc<dyn BlockDevice>, WalConfig),
    epoch: NodeEpoch,
    seams: &Seams,
) -> Result<Scanned, StorageError> {
    let log_id = log_config.identity;
    let unopened = UnopenedWal::read(Arc::clone(&device), log_config.clone()).await?;
    let log_id = unopened.identity().map_or(log_id, |found| found.wal_id);
    let fence = wal_fence(&config.storage.wal, log_id, seams)?;
    if let Some(fence) = &fence {
        fence.acquire(epoch).map_err(StorageError::Fenced)?;
    }
    let log = UnopenedWal::read(device, log_config).await?;
    let scanned = Scanned::find(log).await?;
    Ok(Scanned {
        log: fence.into_iter().fold(scanned.log, ScannedWal::fenced_by),
        ..scanned
    })
}

async fn known_streams(meta: &PostgresMeta, scanned: &Scanned) -> Result<(), StorageError> {
    let unknown = meta.never_created(&scanned.streams).await?;
    let records = scanned.recovered.records_by_stream();
    let Some(&first) = unknown.first() else {
        return Ok(());
    };
    Err(Mismatch::UnknownStreams {
        streams: unknown.len(),
        records: unknown
            .iter()
            .filter_map(|stream| records.get(stream))
            .sum(),
        first,
    }
    .into())
}
