use std::collections::BTreeMap;

use millrace_meta::sqlite::{SqliteMeta, SqliteOptions};
use millrace_time::SystemClock;
use tempfile::TempDir;

use super::*;
use crate::{Machine, Properties};

const MIB: u64 = 1 << 20;

#[derive(Debug)]
struct Memory(u64);

impl Machine for Memory {
    fn memory_bytes(&self) -> u64 {
        self.0
    }
}

/// What outlives a broker.
struct Home {
    folder: TempDir,
}

/// A broker's settings, without the parts that they concern.
struct Start {
    settings: LiveSettings,
    meta: Arc<dyn MetaStore>,
    memory: MemoryBudgets,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { folder }
    }

    async fn start(&self, file: &str, memory_mib: u64) -> Start {
        let properties = Properties::parse(file).expect("legal");
        let mut config = BrokerConfig::new(&properties).expect("legal");
        let memory = MemoryBudgets::divide(&mut config, &Memory(memory_mib * MIB)).expect("fits");
        let path = self.folder.path().join("meta.db");
        let clock = SystemClock::shared();
        let meta = SqliteMeta::open(&path, SqliteOptions::default(), clock).await;
        let meta: Arc<dyn MetaStore> = Arc::new(meta.expect("opens"));
        let epoch = meta.register_node(config.node_id).await.expect("registers");
        let settings = LiveSettings::new(&config, &memory);
        settings
            .load(Arc::clone(&meta), epoch)
            .await
            .expect("loads");
        Start {
            settings,
            meta,
            memory,
        }
    }
}

impl Start {
    async fn alter(
        &self,
        scope: SettingScope,
        pairs: &[(&str, Option<&str>)],
    ) -> Result<(), String> {
        let pair =
            |(name, value): &(&str, Option<&str>)| ((*name).to_owned(), value.map(str::to_owned));
        let change = SettingsChange::Some(pairs.iter().map(pair).collect());
        let altered = self.settings.alter(scope, change, false).await;
        altered.map_err(|error| error.to_string())
    }

    async fn set(&self, name: &str, value: &str) -> Result<(), String> {
        self.alter(SettingScope::Broker, &[(name, Some(value))])
            .await
    }

    /// Value and source of one.
    fn shown(&self, name: &str) -> (String, SettingSource) {
        let all = self.settings.settings();
        let setting = all.into_iter().find(|s| s.name == name).expect("known");
        (setting.value.clone().unwrap_or_default(), setting.source())
    }

    fn value(&self, name: &str) -> u64 {
        self.shown(name).0.parse().expect("a number")
    }
}

const BLOCK: &str = "s3.block.cache.size";
const WAL: &str = "s3.wal.cache.size";
const THRESHOLD: &str = "s3.wal.upload.threshold";
const INGRESS: &str = "s3.network.ingress.baseline.bandwidth";

#[tokio::test]
async fn run_time_wins_over_the_file_and_the_file_over_the_default() {
    let home = Home::new();
    let start = home.start("s3.block.cache.size=64MiB", 16_384).await;
    assert_eq!(
        start.shown(BLOCK),
        ((64 * MIB).to_string(), SettingSource::StaticBroker)
    );
    assert_eq!(
        start.shown(WAL),
        ((256 * MIB).to_string(), SettingSource::Default)
    );
    let all = [(BLOCK, Some("128MiB"))];
    start
        .alter(SettingScope::Cluster, &all)
        .await
        .expect("legal");
    assert_eq!(
        start.shown(BLOCK),
        ((128 * MIB).to_string(), SettingSource::DynamicDefault)
    );
    start.set(BLOCK, "100000000").await.expect("legal");
    assert_eq!(
        start.shown(BLOCK),
        ("100000000".into(), SettingSource::DynamicBroker)
    );
    let settings = start.settings.settings();
    let block = settings.iter().find(|s| s.name == BLOCK).expect("known");
    let values: Vec<_> = block
        .layers
        .iter()
        .filter_map(|l| l.value.as_deref())
        .collect();
    assert_eq!(values, ["100000000", "134217728", "67108864", "268435456"]);
    // Back, place by place.
    for (scope, value) in [(SettingScope::Broker, 128), (SettingScope::Cluster, 64)] {
        start.alter(scope, &[(BLOCK, None)]).await.expect("legal");
        assert_eq!(start.value(BLOCK), value * MIB);
    }
}

#[tokio::test]
async fn what_was_set_is_there_after_a_restart_before_anything_opens() {
    let home = Home::new();
    let start = home.start("", 16_384).await;
    start.set(WAL, "60MiB").await.expect("legal");
    start.set(INGRESS, "5000000").await.expect("legal");
    drop(start);
    let start = home.start("s3.wal.cache.size=32MiB", 16_384).await;
    let config = BrokerConfig::new(&Properties::default()).expect("legal");
    let laid = start.settings.lay_over(&config.storage);
    assert_eq!(laid.wal_cache_bytes as u64, 60 * MIB);
    assert_eq!(laid.ingress_bytes_per_s, Some(5_000_000));
    assert_eq!(
        laid.upload_threshold_bytes as u64,
        20 * MIB,
        "it follows the log cache"
    );
}

#[tokio::test]
async fn settings_of_one_request_are_validated_together_and_take_effect_together() {
    let start = Home::new()
        .start("s3.wal.upload.threshold=100MiB", 16_384)
        .await;
    let refused = start.set(WAL, "50MiB").await.expect_err("too small");
    assert!(
        refused.starts_with("s3.wal.cache.size: 52428800 is below the least of 104857600: "),
        "{refused}"
    );
    let both = [(WAL, Some("50MiB")), (THRESHOLD, Some("20MiB"))];
    start
        .alter(SettingScope::Broker, &both)
        .await
        .expect("together they fit");
    assert_eq!(
        (start.value(WAL), start.value(THRESHOLD)),
        (50 * MIB, 20 * MIB)
    );
    let one_bad = [(BLOCK, Some("4096")), (THRESHOLD, Some("10MiB"))];
    let refused = start.alter(SettingScope::Broker, &one_bad).await;
    assert!(refused.expect_err("one is wrong").contains(BLOCK));
    assert_eq!(start.value(THRESHOLD), 20 * MIB, "nothing has changed");
    let refused = start
        .alter(SettingScope::Broker, &[(THRESHOLD, None)])
        .await;
    let refused = refused.expect_err("the file's is larger than the cache now");
    assert!(refused.contains("above the most of 52428800"), "{refused}");
}

#[tokio::test]
async fn the_caches_fit_the_bound_of_the_broker() {
    let start = Home::new().start("memory.max.bytes=2GiB", 65_536).await;
    let room = (2 << 30) - start.memory.beside_caches();
    let most = room - 256 * MIB;
    let refused = start.set(BLOCK, &(most + 1).to_string()).await;
    let refused = refused.expect_err("too much");
    for part in [
        format!("above the most of {most}: "),
        "the broker may have 2147483648 bytes of memory (memory.max.bytes)".to_owned(),
        "s3.wal.cache.size has 268435456".to_owned(),
    ] {
        assert!(refused.contains(&part), "{refused}");
    }
    start.set(BLOCK, &most.to_string()).await.expect("fits");
    let refused = start.set(WAL, "257MiB").await.expect_err("no room is left");
    assert!(refused.contains("above the most of 268435456"), "{refused}");
    let most = most.to_string();
    let swap = [(BLOCK, Some("256MiB")), (WAL, Some(&*most))];
    start
        .alter(SettingScope::Broker, &swap)
        .await
        .expect("the same together");
}

#[tokio::test]
async fn what_is_not_legal_any_more_does_not_keep_the_broker_from_starting() {
    let home = Home::new();
    let start = home.start("", 16_384).await;
    start.set(BLOCK, "8GiB").await.expect("fits");
    start.set(THRESHOLD, "200MiB").await.expect("fits");
    start.set(INGRESS, "5000000").await.expect("legal");
    drop(start);
    let start = home.start("s3.wal.cache.size=100MiB", 2_048).await;
    assert_eq!(
        start.shown(BLOCK),
        ((256 * MIB).to_string(), SettingSource::Default)
    );
    assert_eq!(start.shown(THRESHOLD).1, SettingSource::Default);
    assert_eq!(start.shown(INGRESS).1, SettingSource::DynamicBroker);
    let broken = start.meta.put_kv("settings/broker/0", b"no record").await;
    broken.expect("stored");
    drop(start);
    let start = home.start("", 2_048).await;
    assert_eq!(start.shown(INGRESS).1, SettingSource::Default);
}

#[tokio::test]
async fn what_all_brokers_have_holds_where_the_brokers_own_is_not_legal_any_more() {
    let home = Home::new();
    let start = home.start("", 32_768).await;
    let all = [(BLOCK, Some("128MiB")), (WAL, Some("9GiB"))];
    let altered = start.alter(SettingScope::Cluster, &all).await;
    altered.expect("legal");
    let own = [(BLOCK, Some("3GiB")), (WAL, Some("8GiB"))];
    let altered = start.alter(SettingScope::Broker, &own).await;
    altered.expect("legal");
    drop(start);
    let start = home.start("", 2_048).await;
    assert_eq!(
        start.shown(BLOCK),
        ((128 * MIB).to_string(), SettingSource::DynamicDefault)
    );
    assert_eq!(
        start.shown(WAL),
        ((256 * MIB).to_string(), SettingSource::Default),
        "neither is legal"
    );
}

/// A write that was carried out and said to have failed.
#[tokio::test]
async fn what_is_set_again_is_stored_whatever_was() {
    let home = Home::new();
    let start = home.start("", 16_384).await;
    start.set(BLOCK, "64MiB").await.expect("legal");
    let other = stored::encode(&Set::from([(Dynamic::BlockCache, 128 * MIB)]));
    let written = start.meta.put_kv("settings/broker/0", &other).await;
    written.expect("stored");
    start.set(BLOCK, "64MiB").await.expect("legal");
    drop(start);
    let start = home.start("", 16_384).await;
    assert_eq!(start.value(BLOCK), 64 * MIB);
}

#[tokio::test]
async fn names_and_values_that_mean_nothing_are_refused_with_a_remedy() {
    let start = Home::new().start("", 16_384).await;
    for (name, value, expected) in [
        (
            "s3.block.cache.sise",
            "1",
            "did you mean s3.block.cache.size?",
        ),
        ("colour", "1", "these can be changed: s3.block.cache.size, "),
        (
            "num.partitions",
            "3",
            "needs a restart: set it in server.properties",
        ),
        (
            BLOCK,
            "much",
            "\"much\" is not a number of bytes; write a whole number",
        ),
        (BLOCK, "-1", "is not a number of bytes"),
        (BLOCK, "99999999999GiB", "is not a number of bytes"),
        (INGRESS, "5", "write at least 1048576, or 0 for no bound"),
        ("s3.prefetch.max.bytes", "2GiB", "write at most 1073741824"),
    ] {
        let refused = start.set(name, value).await.expect_err("refused");
        assert!(
            refused.starts_with(&format!("{name}: ")) && refused.contains(expected),
            "{refused}"
        );
    }
    start.set(INGRESS, "0").await.expect("no bound");
    start
        .set("s3.prefetch.max.bytes", "0")
        .await
        .expect("no prefetch");
}

#[tokio::test]
async fn to_validate_stores_nothing() {
    let home = Home::new();
    let start = home.start("", 16_384).await;
    let all =
        |value: &str| SettingsChange::All(BTreeMap::from([(BLOCK.to_owned(), value.to_owned())]));
    let scope = SettingScope::Broker;
    let checked = start.settings.alter(scope, all("64MiB"), true).await;
    assert_eq!((checked, start.value(BLOCK)), (Ok(()), 256 * MIB));
    assert!(start.settings.alter(scope, all("1"), true).await.is_err());
    // The request that replaces all forgets what it does not name.
    start.set(INGRESS, "5000000").await.expect("legal");
    let replaced = start.settings.alter(scope, all("64MiB"), false).await;
    assert_eq!((replaced, start.value(BLOCK)), (Ok(()), 64 * MIB));
    assert_eq!(start.shown(INGRESS).1, SettingSource::Default);
}

#[tokio::test]
async fn a_broker_that_was_replaced_changes_nothing() {
    let home = Home::new();
    let old = home.start("", 16_384).await;
    old.set(BLOCK, "64MiB").await.expect("legal");
    let newer = old.meta.register_node(NodeId(0)).await;
    newer.expect("registers");
    let change = SettingsChange::Some(BTreeMap::from([(BLOCK.to_owned(), None)]));
    let refused = old
        .settings
        .alter(SettingScope::Broker, change, false)
        .await;
    assert_eq!(refused, Err(AlterSettingsError::Fenced));
    assert_eq!(old.value(BLOCK), 64 * MIB);
}

#[tokio::test]
async fn every_setting_is_shown_with_its_bounds_and_no_secret() {
    let file = "s3.data.buckets=0@s3://b?region=r&accessKey=AKIA&secretKey=hush\n\
                s3.network.baseline.bandwidth=9000000";
    let start = Home::new().start(file, 16_384).await;
    start.set(BLOCK, "64MiB").await.expect("legal");
    let shown = start.settings.shown();
    let find = |key: &str| shown.iter().find(|s| s.key == key).expect("shown");
    let block = find(BLOCK);
    assert!(block.dynamic && !block.is_default);
    assert_eq!(
        (
            block.value.as_deref(),
            block.source,
            block.default.as_deref()
        ),
        (Some("67108864"), "DYNAMIC_BROKER_CONFIG", Some("268435456"))
    );
    assert_eq!(block.min.as_deref(), Some("16777216"));
    assert!(
        block
            .reason
            .as_deref()
            .is_some_and(|text| text.contains("memory"))
    );
    let ingress = find(INGRESS);
    assert_eq!(
        (
            ingress.value.as_deref(),
            ingress.source,
            ingress.min.as_deref()
        ),
        (Some("9000000"), "STATIC_BROKER_CONFIG", Some("0"))
    );
    let partitions = find("num.partitions");
    assert_eq!(
        (
            partitions.min.as_deref(),
            partitions.max.as_deref(),
            partitions.dynamic
        ),
        (Some("1"), Some("10000"), false)
    );
    let text = serde_json::to_string(&shown).expect("plain data");
    assert!(!text.contains("hush") && !text.contains("AKIA"));
    assert!(text.contains("s3.block.cache.eviction"));
}
