//! Storage that does not belong together is refused, and left exactly as it was.
//!
//! Each test begins with a copy of what a broker left when it was killed with records in its log.

mod image;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use millrace_broker::{
    Broker, BrokerConfig, Seams, StartError, StorageError,
    identity::{AdoptError, Adoption, Age, Loss, Mismatch, prepare_adoption},
};
use millrace_meta::{
    MetaStore,
    sqlite::{Floors, SqliteMeta, SqliteOptions, read_identity},
};
use millrace_model::{NodeEpoch, NodeId};
use millrace_objects::{
    ObjectStorage,
    chain::{Chain, ChainOwner},
};
use millrace_record::Compression;
use millrace_time::{SystemClock, SystemRandom};
use millrace_wal::{
    UnopenedWal, Wal, WalConfig, WalIdentity,
    device::{DeviceConfig, open_device},
};
use millrace_wire::{
    StrBytes,
    messages::{DeleteTopicsRequest, TopicName},
};
use tokio::sync::OnceCell;

use self::image::Image;
use crate::support::{Home, batch, client, values};

const WAL_BYTES: u64 = 16 << 20;

/// What brokers left behind, by name.
struct Images(BTreeMap<&'static str, Image>);

static IMAGES: OnceCell<Images> = OnceCell::const_new();

impl Images {
    /// Node 0 of the cluster `test`, killed in its second start: five records are uploaded, three are in
    /// the log.
    const KILLED: &str = "killed";
    /// The same, after its first start.
    const FIRST: &str = "first";
    /// The same broker, after it was stopped in peace.
    const STOPPED: &str = "stopped";
    /// Another broker of the same name.
    const TWIN: &str = "twin";
    /// Node 0 of the cluster `other`.
    const OTHER: &str = "other";
    /// Node 7 of the cluster `test`.
    const NODE_7: &str = "node-7";

    async fn all() -> &'static Self {
        IMAGES.get_or_init(Self::make).await
    }

    async fn make() -> Self {
        let mut images = Self(BTreeMap::new());
        let home = Home::new();
        let broker = start(&home, &[]).await.expect("starts");
        let mut kafka = client(&broker).await;
        assert_eq!(kafka.create_topic("t", 1).await, 0);
        let texts = batch(&["1", "2", "3", "4", "5"], Compression::None);
        assert_eq!(kafka.produce("t", 0, texts).await, Ok(0));
        images.stop(broker, &home, Self::FIRST).await;
        let broker = start(&home, &[]).await.expect("starts");
        let texts = batch(&["6", "7", "8"], Compression::None);
        assert_eq!(client(&broker).await.produce("t", 0, texts).await, Ok(5));
        images.0.insert(Self::KILLED, Image::of(home.path()));
        images.stop(broker, &home, Self::STOPPED).await;
        for (image, settings) in [
            (Self::TWIN, &[] as &[&str]),
            (Self::OTHER, &["cluster.id=other"]),
            (Self::NODE_7, &["node.id=7"]),
        ] {
            let home = Home::new();
            let broker = start(&home, settings).await.expect("starts");
            assert_eq!(client(&broker).await.create_topic("t", 1).await, 0);
            images.stop(broker, &home, image).await;
        }
        images
    }

    async fn stop(&mut self, broker: Broker, home: &Home, image: &'static str) {
        broker.stop().await;
        // Closing moves SQLite's journal into its file, on a thread of its own.
        for _ in 0..100 {
            if !home.path().join("data/meta.db-wal").exists() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.0.insert(image, Image::of(home.path()));
    }

    fn get(&self, image: &str) -> &Image {
        self.0.get(image).expect("it was made")
    }
}

fn config(home: &Home, settings: &[&str]) -> BrokerConfig {
    let wal = format!(
        "s3.wal.path=0@file://{}/wal/wal?capacity={WAL_BYTES}&iodepth=4",
        home.path().display()
    );
    let mut all = vec![wal.as_str(), "s3.wal.upload.interval.ms=60000"];
    all.extend(settings);
    home.config(&all)
}

async fn start(home: &Home, settings: &[&str]) -> Result<Broker, StartError> {
    Broker::start(config(home, settings)).await
}

/// A home that a test may spoil.
struct Spoilt {
    home: Home,
    images: &'static Images,
}

impl Spoilt {
    async fn of(image: &str) -> Self {
        let images = Images::all().await;
        let home = Home::new();
        images.get(image).write("", home.path());
        Self { home, images }
    }

    fn path(&self, part: &str) -> PathBuf {
        self.home.path().join(part)
    }

    /// Replaces a file by the one of another image.
    fn take(&self, file: &str, image: &str) {
        self.images.get(image).write(file, self.home.path());
    }

    fn remove_metadata(&self) {
        for file in ["data/meta.db", "data/meta.db-wal", "data/meta.db-shm"] {
            let _ = fs::remove_file(self.path(file));
        }
    }

    /// Replaces the metadata by that of another image.
    fn take_metadata(&self, image: &str) {
        self.remove_metadata();
        for file in ["data/meta.db", "data/meta.db-wal"] {
            if self.images.get(image).has(file) {
                self.take(file, image);
            }
        }
    }

    async fn wal(&self) -> UnopenedWal {
        read_wal(&self.path("wal/wal")).await
    }

    /// The bucket, past the broker.
    fn bucket(&self) -> ObjectStorage {
        let uri = format!("file://{}", self.path("objects").display());
        let opened = ObjectStorage::open(&uri, SystemClock::shared(), SystemRandom::shared());
        opened.expect("opens")
    }

    /// Another start of this node writes to the metadata backup.
    async fn back_up(&self, wal_id: u64, generation: u64, revision: u64) {
        let chain = Chain::new(self.bucket(), NodeId(0));
        let tail = chain.read_tail().await.expect("readable");
        let owner = ChainOwner {
            cluster_id: "test".into(),
            node_id: NodeId(0),
            wal_id,
            generation: NodeEpoch(generation),
            nonce: 1,
        };
        let claimed = chain.claim(tail.as_ref(), owner, revision, 0).await;
        claimed.expect("claimed");
    }

    /// What an adoption would lose. Looking changes nothing.
    async fn adoption(&self) -> Adoption {
        let before = Image::of(self.home.path());
        let prepared = prepare_adoption(config(&self.home, &[]), Seams::system()).await;
        let prepared = prepared
            .expect("can be prepared")
            .expect("there is something to adopt");
        assert!(
            before == Image::of(self.home.path()),
            "preparing has changed something"
        );
        prepared
    }

    /// Adopts, and starts the broker.
    async fn adopted(&self) -> Broker {
        self.adoption().await.apply().await.expect("adopts");
        let prepared = prepare_adoption(config(&self.home, &[]), Seams::system()).await;
        assert!(
            prepared.expect("can be prepared").is_none(),
            "everything agrees"
        );
        start(&self.home, &[]).await.expect("starts")
    }

    /// The start is refused, twice, for a reason that names everything in `named`, and nothing has changed.
    async fn refused(&self, settings: &[&str], named: &[&str]) -> Mismatch {
        let before = Image::of(self.home.path());
        let mut reasons = Vec::new();
        for _ in 0..2 {
            let reason = match start(&self.home, settings).await {
                Err(StartError::Storage(StorageError::Mismatch(reason))) => reason,
                Err(error) => panic!("another error: {error}"),
                Ok(_) => panic!("it must not start"),
            };
            let after = Image::of(self.home.path());
            assert!(after.0.keys().eq(before.0.keys()), "{after:?}: {reason}");
            for (path, bytes) in &before.0 {
                assert!(
                    after.0[path] == *bytes,
                    "{} has changed: {reason}",
                    path.display()
                );
            }
            reasons.push(reason);
        }
        assert_eq!(reasons[0], reasons[1]);
        let text = reasons[0].to_string();
        for name in named {
            assert!(text.contains(name), "{text} names {name}");
        }
        reasons.remove(0)
    }
}

async fn read_wal(path: &Path) -> UnopenedWal {
    let device = open_device(path, &DeviceConfig::new(WAL_BYTES)).expect("opens");
    let read = UnopenedWal::read(device, WalConfig::new(1)).await;
    read.expect("reads")
}

async fn wal_identity(path: &Path) -> WalIdentity {
    read_wal(path).await.identity().expect("not blank")
}

async fn metadata(path: &Path) -> SqliteMeta {
    let options = SqliteOptions::default();
    let meta = SqliteMeta::open(path, options, SystemClock::shared()).await;
    meta.expect("opens")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_together_starts_with_everything_that_was_acknowledged() {
    let killed = Spoilt::of(Images::KILLED).await;
    let broker = start(&killed.home, &[]).await.expect("starts");
    let mut kafka = client(&broker).await;
    let read = values(&kafka.fetch("t", 0, 5, Duration::ZERO).await);
    let expected = [(5, "6"), (6, "7"), (7, "8")];
    assert_eq!(
        read,
        expected.map(|(offset, text)| (offset, text.to_owned()))
    );
    broker.stop().await;
    let identity = read_identity(&killed.path("data/meta.db")).await;
    let identity = identity.expect("reads").expect("there");
    let wal = wal_identity(&killed.path("wal/wal")).await;
    assert_eq!(identity.wal_id, Some(wal.wal_id));
    assert!(identity.bucket_claimed);
    assert!(0 < wal.revision && wal.revision <= identity.revision);
    let owner = wal.owner.expect("named");
    assert_eq!(
        (owner.cluster_id.as_str(), owner.node_id),
        ("test", NodeId(0))
    );
    assert_eq!(Some(owner.generation), identity.generation);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_that_names_another_cluster_is_refused() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    let reason = spoilt
        .refused(&["cluster.id=other"], &["other", "cluster test"])
        .await;
    assert!(
        matches!(reason, Mismatch::ConfiguredCluster { .. }),
        "{reason}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_that_names_another_node_is_refused() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    let reason = spoilt
        .refused(&["node.id=7"], &["node.id is 7", "node 0"])
        .await;
    assert!(
        matches!(reason, Mismatch::ConfiguredNode { .. }),
        "{reason}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn another_clusters_log_is_refused() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    spoilt.take("wal/wal", Images::OTHER);
    let named = [
        "cluster other",
        "cluster test",
        "s3.wal.path",
        "millrace adopt",
    ];
    let reason = spoilt.refused(&[], &named).await;
    assert!(matches!(reason, Mismatch::WalOfAnother { .. }), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_nodes_log_is_refused() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    spoilt.take("wal/wal", Images::NODE_7);
    let reason = spoilt
        .refused(&[], &["node 7", "node 0", "millrace adopt"])
        .await;
    assert!(matches!(reason, Mismatch::WalOfAnother { .. }), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_not_the_recorded_one_is_refused() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    let expected = wal_identity(&spoilt.path("wal/wal")).await.wal_id;
    spoilt.take("wal/wal", Images::TWIN);
    let found = wal_identity(&spoilt.path("wal/wal")).await.wal_id;
    let named = [format!("{expected:016x}"), format!("{found:016x}")];
    let reason = spoilt
        .refused(&[], &[&named[0], &named[1], "millrace adopt"])
        .await;
    assert_eq!(reason, Mismatch::AnotherWal { expected, found });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_log_is_not_replaced_by_a_blank_one() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    let expected = wal_identity(&spoilt.path("wal/wal")).await.wal_id;
    fs::remove_dir_all(spoilt.path("wal")).expect("removed");
    let named = ["blank", "restore that log", "millrace adopt"];
    let reason = spoilt.refused(&[], &named).await;
    assert_eq!(reason, Mismatch::BlankWal { expected });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_whose_header_is_zeros_is_refused() {
    let spoilt = Spoilt::of(Images::STOPPED).await;
    let mut bytes = fs::read(spoilt.path("wal/wal")).expect("readable");
    bytes[..128 << 10].fill(0);
    fs::write(spoilt.path("wal/wal"), bytes).expect("written");
    let reason = spoilt.refused(&[], &["blank"]).await;
    assert!(matches!(reason, Mismatch::BlankWal { .. }), "{reason}");
}

/// What happened on a machine: the metadata was moved away, and the next start threw away all records.
#[tokio::test(flavor = "multi_thread")]
async fn missing_metadata_beside_a_used_log_is_refused_and_what_is_put_back_serves() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    spoilt.remove_metadata();
    let named = [
        "no metadata",
        "cluster test",
        "restore meta.db",
        "millrace recover",
    ];
    let reason = spoilt.refused(&[], &named).await;
    assert!(
        matches!(&reason, Mismatch::BlankMetadata { owner: Some(owner), .. } if owner.generation == NodeEpoch(2)),
        "{reason}"
    );
    spoilt.take_metadata(Images::KILLED);
    let broker = start(&spoilt.home, &[]).await.expect("starts");
    assert_eq!(client(&broker).await.offset_at("t", 0, -1).await, Ok(8));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_metadata_beside_a_log_of_an_older_version_is_refused() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    fs::remove_file(spoilt.path("wal/wal")).expect("removed");
    spoilt.remove_metadata();
    let device = open_device(&spoilt.path("wal/wal"), &DeviceConfig::new(WAL_BYTES));
    let opened = Wal::open(
        device.expect("opens"),
        WalConfig::new(42),
        SystemClock::shared(),
    );
    let (wal, _) = opened.await.expect("opens");
    wal.close().await.expect("closes");
    drop(wal);
    let reason = spoilt
        .refused(&[], &["000000000000002a", "millrace recover"])
        .await;
    let expected = Mismatch::BlankMetadata {
        wal_id: 42,
        owner: None,
    };
    assert_eq!(reason, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_of_an_earlier_start_is_refused() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    spoilt.take_metadata(Images::FIRST);
    let named = ["generation 1", "generation 2", "millrace recover"];
    let reason = spoilt.refused(&[], &named).await;
    assert!(
        matches!(reason, Mismatch::MetadataBehindWal { .. }),
        "{reason}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_that_does_not_know_what_was_trimmed_is_refused() {
    // The same start wrote both, the metadata before it uploaded.
    let spoilt = Spoilt::of(Images::STOPPED).await;
    spoilt.take_metadata(Images::KILLED);
    let reason = spoilt.refused(&[], &["generation 2", "revision"]).await;
    let Mismatch::MetadataBehindWal { metadata, wal } = reason else {
        panic!("{reason}");
    };
    let Age { generation, .. } = metadata;
    assert_eq!((generation, wal.generation), (NodeEpoch(2), NodeEpoch(2)));
    assert!(metadata.revision < wal.revision);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_clusters_bucket_is_refused() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    fs::remove_dir_all(spoilt.path("objects")).expect("removed");
    spoilt.take("objects", Images::OTHER);
    let named = ["cluster other", "cluster test", "s3.data.buckets"];
    let reason = spoilt.refused(&[], &named).await;
    assert!(
        matches!(reason, Mismatch::BucketOfAnother { .. }),
        "{reason}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_bucket_is_refused_where_a_full_one_was_used() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    fs::remove_dir_all(spoilt.path("objects")).expect("removed");
    let named = [
        "no mark",
        "cluster",
        "test",
        "s3.data.buckets",
        "millrace adopt",
    ];
    let reason = spoilt.refused(&[], &named).await;
    assert!(matches!(reason, Mismatch::BlankBucket { .. }), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_that_is_none_is_refused() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    fs::write(spoilt.path("objects/meta/cluster"), b"{}").expect("written");
    let reason = spoilt
        .refused(&[], &["meta/cluster", "s3.data.buckets"])
        .await;
    assert!(matches!(reason, Mismatch::UnreadableMark(_)), "{reason}");
}

/// Before there were marks and backups, a broker that lost its volume began again under the same ids.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_volume_of_an_older_version_is_refused() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    spoilt.remove_metadata();
    fs::remove_dir_all(spoilt.path("wal")).expect("removed");
    fs::remove_dir_all(spoilt.path("objects/meta")).expect("removed");
    let named = ["are blank", "already has objects", "empty bucket"];
    let reason = spoilt.refused(&[], &named).await;
    assert!(matches!(reason, Mismatch::BucketInUse { .. }), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_volume_is_not_replaced_by_an_empty_one() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    fs::remove_dir_all(spoilt.path("data")).expect("removed");
    fs::remove_dir_all(spoilt.path("wal")).expect("removed");
    // The lock's file is created by every start.
    drop(start(&spoilt.home, &[]).await);
    let named = [
        "are blank",
        "node 0",
        "cluster test",
        "generation 2",
        "millrace recover",
    ];
    let reason = spoilt.refused(&[], &named).await;
    assert!(matches!(reason, Mismatch::VolumeLost { .. }), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_older_than_its_backup_is_refused() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    spoilt.back_up(spoilt.wal().await.wal_id(), 2, 9_000).await;
    let named = ["revision 9000", "backup", "millrace recover"];
    let reason = spoilt.refused(&[], &named).await;
    assert!(
        matches!(reason, Mismatch::MetadataBehindBackup { .. }),
        "{reason}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_another_machine_has_taken_over_is_refused() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    spoilt.back_up(0xabc, 5, 9_000).await;
    let named = [
        "another machine",
        "node 0",
        "0000000000000abc",
        "generation 2",
    ];
    let reason = spoilt.refused(&[], &named).await;
    assert!(matches!(reason, Mismatch::TakenOver { .. }), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_streams_that_the_metadata_never_had_are_refused() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    let wal_id = spoilt.wal().await.wal_id();
    spoilt.remove_metadata();
    let meta = metadata(&spoilt.path("data/meta.db")).await;
    meta.cluster_id("test").await.expect("stores");
    let floors = Floors {
        generation: 9,
        revision: 9_999,
        ..Floors::default()
    };
    meta.raise(floors).await.expect("raises");
    meta.register_node(NodeId(0)).await.expect("registers");
    meta.set_wal_id(Some(wal_id)).await.expect("stores");
    meta.set_bucket_claimed().await.expect("stores");
    meta.close().await;
    let named = [
        "never had",
        "restore the newest meta.db",
        "millrace recover",
        "millrace adopt",
    ];
    let reason = spoilt.refused(&[], &named).await;
    assert!(
        matches!(reason, Mismatch::UnknownStreams { .. }),
        "{reason}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_a_deleted_topic_are_no_reason_to_refuse() {
    let killed = Spoilt::of(Images::KILLED).await;
    let broker = start(&killed.home, &[]).await.expect("starts");
    let name = TopicName(StrBytes::from_static_str("t"));
    let delete = DeleteTopicsRequest::default().with_topic_names(vec![name]);
    let deleted = client(&broker).await.call(5, &delete).await;
    assert_eq!(deleted.responses[0].error_code, 0);
    // A copy, as a `kill -9` would leave it.
    let home = Home::new();
    Image::of(killed.home.path()).write("", home.path());
    broker.stop().await;
    let broker = start(&home, &[]).await.expect("starts");
    broker.stop().await;
    start(&home, &[]).await.expect("starts").stop().await;
}

/// Makes the bucket fail: its mark is a link to itself.
fn silence(spoilt: &Spoilt) {
    let mark = spoilt.path("objects/meta/cluster");
    fs::remove_file(&mark).expect("removed");
    std::os::unix::fs::symlink("cluster", mark).expect("linked");
}

/// Puts the mark of an image into a bucket that failed. In one step: a broker that looks meanwhile
/// would find a bucket without a mark, which is another failure.
fn answer(spoilt: &Spoilt, image: &str) {
    let mark = "objects/meta/cluster";
    let aside = tempfile::tempdir_in(spoilt.home.path()).expect("a temporary folder");
    spoilt.images.get(image).write(mark, aside.path());
    fs::rename(aside.path().join(mark), spoilt.path(mark)).expect("renamed");
}

fn object_files(spoilt: &Spoilt) -> usize {
    let folders = fs::read_dir(spoilt.path("objects")).expect("a folder");
    let folders = folders.map(|entry| entry.expect("readable").path());
    let of_streams = folders.filter(|folder| !folder.ends_with("meta"));
    of_streams.map(|folder| Image::of(&folder).0.len()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_bucket_is_silent_clients_are_served_and_nothing_is_uploaded() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    let before = object_files(&spoilt);
    silence(&spoilt);
    let broker = start(&spoilt.home, &["s3.wal.upload.interval.ms=100"])
        .await
        .expect("starts");
    let mut kafka = client(&broker).await;
    let texts = batch(&["9"], Compression::None);
    assert_eq!(kafka.produce("t", 0, texts).await, Ok(8));
    assert_eq!(
        values(&kafka.fetch("t", 0, 5, Duration::ZERO).await).len(),
        4
    );
    // Several intervals of uploads.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(object_files(&spoilt), before);
    answer(&spoilt, Images::KILLED);
    let uploaded = async {
        while object_files(&spoilt) == before {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = uploaded => {}
        failure = broker.failed() => panic!("{failure}"),
        () = tokio::time::sleep(Duration::from_secs(60)) => panic!("uploads do not start"),
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_bucket_that_turns_out_to_be_anothers_ends_the_broker() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    let before = object_files(&spoilt);
    silence(&spoilt);
    let broker = start(&spoilt.home, &["s3.wal.upload.interval.ms=100"])
        .await
        .expect("starts");
    answer(&spoilt, Images::OTHER);
    let reason = tokio::time::timeout(Duration::from_secs(60), broker.failed()).await;
    let reason = reason.expect("it fails").to_string();
    assert!(reason.contains("cluster other"), "{reason}");
    assert_eq!(object_files(&spoilt), before);
    drop(broker);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_agrees_needs_no_adoption_and_settings_allow_none() {
    let stopped = Spoilt::of(Images::STOPPED).await;
    let prepared = prepare_adoption(config(&stopped.home, &[]), Seams::system()).await;
    assert!(prepared.expect("can be prepared").is_none());
    let other = config(&stopped.home, &["cluster.id=other"]);
    match prepare_adoption(other, Seams::system()).await {
        Err(AdoptError::Settings(Mismatch::ConfiguredCluster { .. })) => {}
        Err(error) => panic!("another error: {error}"),
        Ok(_) => panic!("it cannot be adopted"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn adopting_without_the_log_loses_what_was_only_there() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    fs::remove_dir_all(spoilt.path("wal")).expect("removed");
    let adoption = spoilt.adoption().await;
    assert!(matches!(adoption.reason, Mismatch::BlankWal { .. }));
    let lost = adoption.losses.iter().map(ToString::to_string);
    let lost: Vec<String> = lost.filter(|loss| loss.starts_with("t-0:")).collect();
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!(lost[0].contains("from offset 5 on"), "{lost:?}");
    drop(adoption);
    let broker = spoilt.adopted().await;
    let mut kafka = client(&broker).await;
    assert_eq!(kafka.offset_at("t", 0, -1).await, Ok(5));
    let texts = batch(&["6"], Compression::None);
    assert_eq!(kafka.produce("t", 0, texts).await, Ok(5));
    assert_eq!(
        values(&kafka.fetch("t", 0, 0, Duration::ZERO).await).len(),
        6
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn adopting_another_clusters_log_empties_it() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    spoilt.take("wal/wal", Images::OTHER);
    let adoption = spoilt.adoption().await;
    assert!(matches!(adoption.reason, Mismatch::WalOfAnother { .. }));
    drop(adoption);
    let broker = spoilt.adopted().await;
    assert_eq!(client(&broker).await.offset_at("t", 0, -1).await, Ok(5));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn adopting_old_metadata_keeps_the_records_that_fit_and_names_the_others() {
    // The log was trimmed after the metadata had known offsets 5 to 8 in objects.
    let spoilt = Spoilt::of(Images::STOPPED).await;
    spoilt.take_metadata(Images::FIRST);
    let adoption = spoilt.adoption().await;
    assert!(matches!(
        adoption.reason,
        Mismatch::MetadataBehindWal { .. }
    ));
    let objects = adoption
        .losses
        .iter()
        .any(|loss| matches!(loss, Loss::Objects { objects, .. } if *objects > 0));
    assert!(objects, "{:?}", adoption.losses);
    drop(adoption);
    let broker = spoilt.adopted().await;
    let mut kafka = client(&broker).await;
    assert_eq!(kafka.offset_at("t", 0, -1).await, Ok(5));
    let texts = batch(&["six"], Compression::None);
    assert_eq!(kafka.produce("t", 0, texts).await, Ok(5));
    broker.stop().await;
    // Its object got an id of its own.
    let broker = start(&spoilt.home, &[]).await.expect("starts");
    let read = values(&client(&broker).await.fetch("t", 0, 5, Duration::ZERO).await);
    assert_eq!(read, [(5, "six".to_owned())]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn adopting_without_metadata_begins_again() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    spoilt.remove_metadata();
    let adoption = spoilt.adoption().await;
    assert!(matches!(adoption.reason, Mismatch::BlankMetadata { .. }));
    let records =
        |loss: &Loss| matches!(loss, Loss::UnnamedRecords { records, .. } if *records >= 3);
    assert!(adoption.losses.iter().any(records), "{:?}", adoption.losses);
    drop(adoption);
    let broker = spoilt.adopted().await;
    let mut kafka = client(&broker).await;
    assert_eq!(kafka.create_topic("t", 1).await, 0);
    let texts = batch(&["new"], Compression::None);
    assert_eq!(kafka.produce("t", 0, texts).await, Ok(0));
    broker.stop().await;
    let broker = start(&spoilt.home, &[]).await.expect("starts");
    let read = values(&client(&broker).await.fetch("t", 0, 0, Duration::ZERO).await);
    assert_eq!(read, [(0, "new".to_owned())]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn adopting_an_empty_bucket_names_what_was_in_the_other() {
    let spoilt = Spoilt::of(Images::KILLED).await;
    fs::remove_dir_all(spoilt.path("objects")).expect("removed");
    let adoption = spoilt.adoption().await;
    let lost = adoption.losses.iter().map(ToString::to_string);
    let lost: Vec<String> = lost.filter(|loss| loss.starts_with("t-0:")).collect();
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!(lost[0].contains("offsets 0 to 4, 5 records"), "{lost:?}");
    // Reading what was in the other bucket fails; that is told, and the bucket is ours from here on.
    adoption.apply().await.expect("adopts");
    let prepared = prepare_adoption(config(&spoilt.home, &[]), Seams::system()).await;
    assert!(prepared.expect("can be prepared").is_none());
}
