//! Metadata that is lost comes back from the bucket, and the records with it.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use millrace_broker::{
    Broker, BrokerConfig, Seams, StartError, StorageError,
    identity::Mismatch,
    recover::{ChainError, RecoverError, RecoverOptions, RecoveryReport, Source, recover},
};
use millrace_record::Compression;
use millrace_time::{SharedClock, SystemClock};

use crate::support::{Home, batch, client, values};

/// Longer than the backup takes for a change.
const BACKED_UP: Duration = Duration::from_millis(1_500);

fn config(home: &Home) -> BrokerConfig {
    let wal = format!(
        "s3.wal.path=0@file://{}/wal/wal?capacity={}&iodepth=4",
        home.path().display(),
        16 << 20
    );
    home.config(&[&wal, "s3.wal.upload.interval.ms=60000"])
}

async fn start(home: &Home) -> Broker {
    Broker::start(config(home)).await.expect("starts")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("created");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("readable");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("known").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

/// The home as `kill -9` would leave it at this moment.
fn killed(home: &Home) -> Home {
    let image = Home::new();
    copy(home.path(), image.path());
    image
}

fn metadata_files(home: &Home) -> Vec<PathBuf> {
    let names = ["meta.db", "meta.db-wal", "meta.db-shm"];
    names.map(|name| home.path().join("data").join(name)).into()
}

fn remove_metadata(home: &Home) {
    for file in metadata_files(home) {
        // Not every file is there at every moment.
        let _ = fs::remove_file(file);
    }
}

async fn recovered(home: &Home, options: RecoverOptions) -> RecoveryReport {
    let report = recover(&config(home), options, Seams::system()).await;
    report.expect("recovers")
}

const APPLY: RecoverOptions = RecoverOptions {
    apply: true,
    at_ms: None,
};

/// All records of the first partition. One answer may end where the objects end and the log begins.
async fn texts(broker: &Broker, topic: &str) -> Vec<String> {
    let mut kafka = client(broker).await;
    let end = kafka.offset_at(topic, 0, -1).await.expect("it answers");
    let mut texts = Vec::new();
    let mut next = 0;
    while next < end {
        let fetched = kafka.fetch(topic, 0, next, Duration::from_secs(10)).await;
        for (offset, text) in values(&fetched) {
            next = offset + 1;
            texts.push(text);
        }
    }
    texts
}

/// The metadata was moved away and the broker killed: once, that lost every record of its log.
#[tokio::test(flavor = "multi_thread")]
async fn metadata_that_was_moved_away_is_refused_and_then_recovered_with_every_record() {
    let home = Home::new();
    let broker = start(&home).await;
    let mut kafka = client(&broker).await;
    assert_eq!(kafka.create_topic("t", 1).await, 0);
    assert_eq!(
        kafka
            .produce("t", 0, batch(&["1", "2"], Compression::None))
            .await,
        Ok(0)
    );
    broker.stop().await;
    let broker = start(&home).await;
    let mut kafka = client(&broker).await;
    assert_eq!(
        kafka
            .produce("t", 0, batch(&["3", "4", "5"], Compression::None))
            .await,
        Ok(2)
    );
    assert_eq!(kafka.create_topic("young", 1).await, 0);
    assert_eq!(
        kafka
            .produce("young", 0, batch(&["6"], Compression::None))
            .await,
        Ok(0)
    );
    let image = killed(&home);
    remove_metadata(&image);

    let refused = Broker::start(config(&image)).await.map(|_| ());
    let Err(StartError::Storage(StorageError::Mismatch(mismatch))) = refused else {
        panic!("{refused:?}");
    };
    assert!(
        matches!(mismatch, Mismatch::BlankMetadata { .. }),
        "{mismatch}"
    );

    let planned = recovered(&image, RecoverOptions::default()).await;
    assert!(
        metadata_files(&image).iter().all(|file| !file.exists()),
        "a dry run changes nothing"
    );
    assert_eq!(planned.source, Source::BucketAndWal);
    assert_eq!((planned.topics, planned.missing.len()), (2, 0), "{planned}");
    assert_eq!(planned.records_from_wal, 4, "{planned}");
    let applied = recovered(&image, APPLY).await;
    assert_eq!(
        applied,
        RecoveryReport {
            applied: true,
            ..planned
        }
    );

    let again = start(&image).await;
    assert_eq!(texts(&again, "t").await, ["1", "2", "3", "4", "5"]);
    assert_eq!(texts(&again, "young").await, ["6"]);
    let produced = client(&again)
        .await
        .produce("t", 0, batch(&["7"], Compression::None))
        .await;
    assert_eq!(produced, Ok(5), "offsets continue");
    again.stop().await;
    broker.stop().await;
}

/// Only the bucket is left: what was uploaded is back, and the rest is named.
#[tokio::test(flavor = "multi_thread")]
async fn the_bucket_alone_gives_what_was_uploaded_and_names_the_rest() {
    let home = Home::new();
    let broker = start(&home).await;
    let mut kafka = client(&broker).await;
    assert_eq!(kafka.create_topic("t", 2).await, 0);
    assert_eq!(
        kafka
            .produce("t", 0, batch(&["1", "2"], Compression::None))
            .await,
        Ok(0)
    );
    broker.stop().await;
    let broker = start(&home).await;
    let mut kafka = client(&broker).await;
    assert_eq!(
        kafka
            .produce("t", 0, batch(&["3"], Compression::None))
            .await,
        Ok(2)
    );
    assert_eq!(
        kafka
            .produce("t", 1, batch(&["4", "5"], Compression::None))
            .await,
        Ok(0)
    );
    tokio::time::sleep(BACKED_UP).await;
    let image = killed(&home);
    remove_metadata(&image);
    fs::remove_file(image.path().join("wal/wal")).expect("removed");

    let report = recovered(&image, APPLY).await;
    assert_eq!(report.source, Source::Bucket);
    let missing: Vec<_> = report
        .missing
        .iter()
        .map(|gone| {
            (
                gone.topic.as_str(),
                gone.partition,
                gone.from_offset,
                gone.to_offset,
            )
        })
        .collect();
    assert_eq!(missing, [("t", 0, 2, 3), ("t", 1, 0, 2)], "{report}");
    let again = start(&image).await;
    assert_eq!(texts(&again, "t").await, ["1", "2"]);
    let produced = client(&again)
        .await
        .produce("t", 1, batch(&["6"], Compression::None))
        .await;
    assert_eq!(produced, Ok(0), "nothing of partition 1 was uploaded");
    again.stop().await;
    broker.stop().await;
}

/// A topic is deleted by mistake; the moment before is still within the window.
#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_moment_comes_back_as_it_was() {
    let clock: SharedClock = SystemClock::shared();
    let home = Home::new();
    let broker = start(&home).await;
    let mut kafka = client(&broker).await;
    assert_eq!(kafka.create_topic("t", 1).await, 0);
    assert_eq!(
        kafka
            .produce("t", 0, batch(&["1", "2"], Compression::None))
            .await,
        Ok(0)
    );
    broker.stop().await;
    let broker = start(&home).await;
    tokio::time::sleep(BACKED_UP).await;
    let before = clock.wall_ms();
    let mut kafka = client(&broker).await;
    assert_eq!(kafka.create_topic("later", 1).await, 0);
    assert_eq!(
        kafka
            .produce("later", 0, batch(&["3"], Compression::None))
            .await,
        Ok(0)
    );
    tokio::time::sleep(BACKED_UP).await;
    let image = killed(&home);

    let at = |at_ms, apply| RecoverOptions {
        apply,
        at_ms: Some(at_ms),
    };
    let early = recover(&config(&image), at(1_000, true), Seams::system()).await;
    let early = early.map(|report| report.to_string());
    assert!(
        matches!(early, Err(RecoverError::Chain(ChainError::BeforeWindow(_)))),
        "{early:?}"
    );
    let late = recovered(&image, at(clock.wall_ms(), true)).await;
    assert_eq!(late.topics, 2, "{late}");
    let report = recovered(&image, at(before, true)).await;
    assert_eq!(
        (report.topics, report.source),
        (1, Source::Bucket),
        "{report}"
    );
    assert!(
        report.recovered_to <= before && report.window_start <= before,
        "{report}"
    );
    assert!(image.path().join("data/meta.db.before-recovery-2").exists());
    let again = start(&image).await;
    assert_eq!(texts(&again, "t").await, ["1", "2"]);
    assert_eq!(
        client(&again).await.create_topic("later", 1).await,
        0,
        "it is not there"
    );
    again.stop().await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_recovered_is_refused_with_the_reason() {
    let home = Home::new();
    let none = recover(&config(&home), RecoverOptions::default(), Seams::system()).await;
    assert!(
        matches!(none, Err(RecoverError::Chain(ChainError::NoBackup))),
        "{none:?}"
    );
    let broker = start(&home).await;
    let running = recover(&config(&home), RecoverOptions::default(), Seams::system()).await;
    assert!(
        matches!(running, Err(RecoverError::Folder(_))),
        "{running:?}"
    );
    tokio::time::sleep(BACKED_UP).await;
    broker.stop().await;
    let mut other = config(&home);
    other.cluster_id = Some("another".into());
    let refused = recover(&other, RecoverOptions::default(), Seams::system()).await;
    assert!(
        matches!(refused, Err(RecoverError::OtherCluster { .. })),
        "{refused:?}"
    );
}
