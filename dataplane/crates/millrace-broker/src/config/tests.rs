mod share_groups;

use millrace_limiter::LimiterMode;
use millrace_objects::bucket::BucketUri;

use super::*;

mod security;

fn config(text: &str) -> Result<BrokerConfig, Vec<ConfigError>> {
    BrokerConfig::new(&Properties::parse(text).expect("legal properties"))
}

fn legal(text: &str) -> BrokerConfig {
    config(text).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn errors(text: &str) -> Vec<String> {
    let errors = config(text).expect_err("something is wrong");
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn an_empty_file_is_a_broker_for_this_machine() {
    let config = legal("");
    assert_eq!(config.listeners[0].at.to_string(), "127.0.0.1:9092");
    assert_eq!(config.advertised, config.listeners);
    assert!(config.data_dir.is_absolute());
    assert!(config.storage.wal.path.starts_with(&config.data_dir));
    assert!(
        matches!(&config.storage.bucket, BucketUri::File(path) if path.starts_with(&config.data_dir))
    );
    assert!(config.unknown.is_empty());
    assert!(config.settings.iter().all(|setting| setting.is_default));
    assert!(
        config.settings.is_sorted_by(|a, b| a.key < b.key),
        "each key once"
    );
}

#[test]
fn what_clients_push_of_their_metrics_is_bounded() {
    assert_eq!(legal("").requests.telemetry_bytes_max, MIB);
    let set = legal("telemetry.max.bytes=2097152").requests;
    assert_eq!(set.telemetry_bytes_max, 2 * MIB);
    assert_eq!(errors("telemetry.max.bytes=1073741824").len(), 1);
}

/// Groups may set what lies between them.
#[test]
fn groups_have_the_brokers_bounds() {
    let set = legal(
        "group.consumer.min.session.timeout.ms=1000\ngroup.consumer.max.heartbeat.interval.ms=20000",
    );
    let limits = set.group.of_groups.limits();
    let (session, interval) = (
        limits.consumer_session_timeout,
        limits.consumer_heartbeat_interval,
    );
    assert_eq!(session.min, Duration::from_secs(1));
    assert_eq!(session.default, Duration::from_secs(45));
    assert_eq!(interval.max, Duration::from_secs(20));
}

#[test]
fn what_the_provisioner_writes() {
    let config = legal(
        "node.id=3\ncluster.id=clu_1\nlisteners=PLAINTEXT://127.0.0.1:0\n\
         advertised.listeners=PLAINTEXT://example.org:9092\nadmin.listener=127.0.0.1:0\n\
         admin.token.file=/a/admin.token\ndata.dir=/a/data\n\
         s3.wal.path=0@file:///a/wal/wal?capacity=536870912&iodepth=8&iops=3000\n\
         s3.data.buckets=0@file:///a/objects\ns3.wal.cache.size=128MiB\nnum.partitions=4",
    );
    assert_eq!(config.node_id, NodeId(3));
    assert_eq!(config.cluster_id.as_deref(), Some("clu_1"));
    assert_eq!(config.advertised[0].at.host, "example.org");
    assert_eq!(config.storage.wal_cache_bytes, 128 * MIB);
    assert_eq!(config.storage.upload_threshold_bytes, 128 * MIB / 3);
    assert_eq!(config.log.num_partitions, 4);
    assert_eq!(config.storage.wal.iops, Some(3_000));
}

#[test]
fn a_broker_with_a_control_link_needs_no_admin_port() {
    let link = "cluster.id=clu_1\ncontrol.link.address=gateway.example.com:443\n\
                control.link.credential.file=/a/link.credential";
    let config = legal(link);
    assert_eq!(config.admin_listener, None);
    let control_link = config.control_link.expect("configured");
    assert_eq!(control_link.address.to_string(), "gateway.example.com:443");
    assert_eq!(control_link.cluster_id, "clu_1");
    assert_eq!(control_link.ca_file, None);
    let both = legal(&format!(
        "{link}\nadmin.listener=127.0.0.1:1\ncontrol.link.ca.file=/a/ca.pem"
    ));
    assert!(both.admin_listener.is_some() && both.control_link.is_some());
    assert!(legal("").control_link.is_none());
}

#[test]
fn a_control_link_that_cannot_work_is_refused_with_a_remedy() {
    let (id, file) = ("cluster.id=c", "control.link.credential.file=/a");
    for (text, key, remedy) in [
        (file.to_owned(), "control.link.address", "host:port"),
        (
            "control.link.ca.file=/a".to_owned(),
            "control.link.address",
            "remove the other",
        ),
        (
            format!("{id}\ncontrol.link.address=h:1"),
            "control.link.credential.file",
            "issued",
        ),
        (
            format!("{file}\ncontrol.link.address=h:1"),
            "cluster.id",
            "set it to the id",
        ),
        (
            format!("cluster.id=ü\n{file}\ncontrol.link.address=h:1"),
            "cluster.id",
            "visible ASCII",
        ),
        (
            format!("{id}\n{file}\ncontrol.link.address=https://h"),
            "control.link.address",
            "such as",
        ),
        (
            format!("{id}\n{file}\ncontrol.link.address=:443"),
            "control.link.address",
            "such as",
        ),
        (
            format!("{id}\n{file}\ncontrol.link.address=h:0"),
            "control.link.address",
            "such as",
        ),
    ] {
        let errors = errors(&text);
        let [error] = &errors[..] else {
            panic!("{text}: {errors:?}")
        };
        assert!(
            error.starts_with(key) && error.contains(remedy),
            "{text}: {error}"
        );
    }
}

#[test]
fn a_stock_kafka_file_starts() {
    let config = legal(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n\
         listeners=PLAINTEXT://localhost:9092,CONTROLLER://:9093\n\
         controller.listener.names=CONTROLLER\ninter.broker.listener.name=PLAINTEXT\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\n\
         num.network.threads=3\nlog.dirs=/tmp/x\nlog.retention.hours=168\n\
         offsets.topic.replication.factor=1\ntransaction.state.log.min.isr=1",
    );
    assert_eq!(config.listeners.len(), 1);
    assert_eq!(config.unknown, Vec::<String>::new());
}

#[test]
fn all_errors_come_at_once_and_name_key_place_and_remedy() {
    let text = "num.partitions=0\nlisteners=127.0.0.1:9092\nauto.create.topics.enable=yes\n\
                s3.wal.path=/wal\nadmin.listener=nowhere";
    let errors = errors(text);
    assert_eq!(errors.len(), 5, "{errors:#?}");
    for (part, at) in [
        ("listeners (line 2", "PLAINTEXT://127.0.0.1:9092"),
        ("num.partitions (line 1", "from 1 to 10000"),
        ("auto.create.topics.enable (line 3", "true or false"),
        ("s3.wal.path (line 4", "capacity=2147483648"),
        ("admin.listener (line 5", "host:port"),
    ] {
        let found = errors
            .iter()
            .any(|error| error.contains(part) && error.contains(at));
        assert!(found, "{part} … {at} in {errors:#?}");
    }
}

/// As Kafka has it. Such a broker served nobody, and its admin HTTP said that records were disabled.
#[test]
fn consumer_groups_have_kafkas_settings() {
    use millrace_coordinator::{Assignor, config::MigrationPolicy};
    let default = legal("").group.consumer;
    assert_eq!(default.session_timeout, Duration::from_secs(45));
    assert_eq!(default.assignors, [Assignor::Uniform, Assignor::Range]);
    let set = legal(
        "group.consumer.session.timeout.ms=50000\n\
         group.consumer.assignors=range, org.apache.kafka.coordinator.group.assignor.UniformAssignor\n\
         group.consumer.migration.policy=DISABLED",
    );
    let set = set.group.consumer;
    assert_eq!(set.session_timeout, Duration::from_secs(50));
    assert_eq!(set.assignors, [Assignor::Range, Assignor::Uniform]);
    assert_eq!(set.migration, MigrationPolicy::Disabled);
    for (wrong, count) in [
        // Too short for its bounds, and for the interval of heartbeats.
        ("group.consumer.session.timeout.ms=1000", 2),
        ("group.consumer.heartbeat.interval.ms=20000", 1),
        ("group.consumer.assignors=sticky", 1),
        ("group.consumer.migration.policy=sometimes", 1),
    ] {
        let errors = errors(wrong);
        assert_eq!(errors.len(), count, "{wrong}: {errors:?}");
    }
}

#[test]
fn a_broker_has_a_listener_for_clients() {
    let text = "listeners=CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER";
    for advertised in ["", "\nadvertised.listeners=PLAINTEXT://h:9092"] {
        let errors = errors(&format!("{text}{advertised}"));
        assert!(errors[0].contains("none is left for clients"), "{errors:?}");
    }
}

#[test]
fn clients_must_be_told_an_address_that_they_can_use() {
    assert!(errors("listeners=PLAINTEXT://:9092")[0].contains("advertised.listeners"));
    let told =
        "listeners=PLAINTEXT://0.0.0.0:9092\nadvertised.listeners=PLAINTEXT://kafka.local:9092";
    assert_eq!(legal(told).advertised[0].at.host, "kafka.local");
}

#[test]
fn a_listener_that_needs_a_certificate_is_refused_without_one() {
    assert!(errors("listeners=SSL://localhost:9093")[0].contains("needs a certificate"));
    let mapped = "listeners=INTERNAL://localhost:1\nlistener.security.protocol.map=INTERNAL:SSL";
    assert!(errors(mapped)[0].contains("needs a certificate"));
}

#[test]
fn a_bucket_is_never_shown() {
    let config = legal("s3.data.buckets=0@s3://b?region=r&accessKey=AKIA&secretKey=hush");
    let shown = format!("{:?}", config.settings);
    assert!(!shown.contains("hush") && !shown.contains("AKIA"));
    assert!(!format!("{:?}", config.storage.bucket).contains("hush"));
}

#[test]
fn retention_has_three_names() {
    assert_eq!(legal("").log.retention_ms, 604_800_000);
    assert_eq!(legal("log.retention.hours=1").log.retention_ms, 3_600_000);
    assert_eq!(
        legal("log.retention.hours=1\nlog.retention.minutes=1")
            .log
            .retention_ms,
        60_000
    );
    assert_eq!(
        legal("log.retention.minutes=1\nlog.retention.ms=5")
            .log
            .retention_ms,
        5
    );
    assert_eq!(legal("log.retention.ms=-1").log.retention_ms, -1);
    let every = |text| legal(text).log.retention_check_interval;
    assert_eq!(every(""), Duration::from_secs(300));
    assert_eq!(
        every("log.retention.check.interval.ms=500"),
        Duration::from_millis(500)
    );
}

#[test]
fn unbounded_memory_is_not_offered() {
    let network = |text| legal(text).memory.network_bytes;
    assert_eq!(
        network("queued.max.request.bytes=-1"),
        None,
        "the machine's"
    );
    assert_eq!(network("queued.max.request.bytes=1MiB"), Some(1 << 20));
    assert_eq!(legal("").memory, MemoryConfig::default());
    let wrong = errors("memory.max.bytes=1MiB\ngroup.memory.max.bytes=-2\npartitions.max=0");
    assert_eq!(wrong.len(), 3, "{wrong:?}");
    assert!(
        wrong[0].contains("or -1 for what suits the machine"),
        "{wrong:?}"
    );
}

#[test]
fn bandwidth_has_one_name_for_both_ways_and_one_for_each() {
    let storage = legal("").storage;
    assert_eq!(
        (storage.ingress_bytes_per_s, storage.egress_bytes_per_s),
        (None, None)
    );
    let text = "s3.network.baseline.bandwidth=7\ns3.network.egress.baseline.bandwidth=9";
    let storage = legal(text).storage;
    assert_eq!(
        (storage.ingress_bytes_per_s, storage.egress_bytes_per_s),
        (Some(7), Some(9))
    );
}

#[test]
fn both_ways_may_share_one_bandwidth() {
    assert_eq!(legal("").storage.limiter_mode, LimiterMode::Separate);
    let shared = legal("s3.network.limiter.mode=shared").storage;
    assert_eq!(shared.limiter_mode, LimiterMode::Shared);
    let error = &errors("s3.network.limiter.mode=both")[0];
    assert!(
        error.contains("both is neither separate nor shared"),
        "{error}"
    );
}

#[test]
fn limits_of_connections_are_kafkas() {
    let none = legal("");
    assert_eq!(none.net.limits.per_address_max, 2_147_483_647);
    assert_eq!(none.net.limits.creation_rate_max, None);
    let config = legal(
        "max.connections.per.ip=7\nmax.connections.per.ip.overrides=127.0.0.1:200,::1:3, [::2]:4\n\
         max.connection.creation.rate=50\nlistener.name.plaintext.max.connections=9\n\
         listener.name.plaintext.max.connection.creation.rate=5\nquota.window.num=3\n\
         quota.window.size.seconds=2\ncontroller.quota.window.num=5",
    );
    let limits = &config.net.limits;
    let of = |address: &str| {
        let address: std::net::IpAddr = address.parse().expect("an address");
        limits.per_address_overrides.get(&address).copied()
    };
    assert_eq!(
        (of("127.0.0.1"), of("::1"), of("::2")),
        (Some(200), Some(3), Some(4))
    );
    assert_eq!(
        (limits.per_address_max, limits.creation_rate_max),
        (7, Some(50.0))
    );
    let own = config.listener_limits["PLAINTEXT"];
    assert_eq!(
        (own.connections_max, own.creation_rate_max),
        (Some(9), Some(5.0))
    );
    assert_eq!(
        (limits.windows.samples, limits.windows.length.as_secs()),
        (3, 2)
    );
    assert_eq!(config.quotas.windows, limits.windows);
    assert_eq!(config.quotas.mutation_windows.samples, 5);
    assert_eq!(config.unknown, Vec::<String>::new());
    for bad in [
        "max.connections.per.ip.overrides=localhost:5",
        "listener.name.plaintext.max.connections=many",
        "quota.window.num=0",
    ] {
        let key = bad
            .split('=')
            .next()
            .expect("a key")
            .replace("listener.name.plaintext.", "");
        assert!(errors(bad)[0].contains(&key), "{bad}");
    }
}

#[test]
fn quotas_are_kafkas_defaults_for_clients_and_unbounded_unless_set() {
    assert_eq!(legal("").quotas, QuotaConfig::default());
    let kafkas = legal("quota.producer.default=9223372036854775807");
    assert_eq!(kafkas.quotas.produce_bytes_per_s, None);
    let quotas = legal("quota.producer.default=1048576\nquota.consumer.default=7").quotas;
    assert_eq!(quotas.produce_bytes_per_s, Some(1_048_576));
    assert_eq!(quotas.fetch_bytes_per_s, Some(7));
    assert!(errors("quota.consumer.default=0")[0].contains("quota.consumer.default"));
}

#[test]
fn uploads_are_paced_unless_they_are_not_to_be() {
    let storage = legal("").storage;
    assert_eq!(storage.upload_pace_percent, Some(125));
    assert_eq!(storage.upload_forced_percent, 60);
    let storage = legal("s3.wal.upload.pace.percent=0\ns3.wal.upload.forced.percent=100").storage;
    assert_eq!(storage.upload_pace_percent, None);
    assert_eq!(storage.upload_forced_percent, 100);
    let wrong = errors("s3.wal.upload.pace.percent=99");
    assert!(wrong[0].contains("never end"), "{wrong:?}");
    assert_eq!(errors("s3.wal.upload.forced.percent=0").len(), 1);
}

#[test]
fn objects_are_compacted_and_deleted_as_configured() {
    let background = legal("").storage.background;
    assert_eq!(background.compaction.interval, Duration::from_secs(300));
    assert_eq!(background.compaction.cool_down, Duration::from_secs(60));
    assert_eq!(background.delete_retention, Duration::from_secs(600));
    let background = legal(
        "s3.compaction.interval.ms=2000\ns3.object.delete.retention.ms=3000\n\
         s3.stream.object.compaction.max.size.bytes=4MiB\n\
         s3.stream.set.object.compaction.max.size.bytes=8MiB\n\
         s3.stream.set.object.compaction.max.num=7\n",
    )
    .storage
    .background;
    let compaction = &background.compaction;
    assert_eq!(compaction.interval, Duration::from_secs(2));
    assert_eq!(compaction.cool_down, compaction.interval);
    assert_eq!(compaction.object_bytes_max, 4 << 20);
    assert_eq!(compaction.set_bytes_max, 8 << 20);
    assert_eq!(compaction.inputs_max, 7);
    assert_eq!(background.delete_retention, Duration::from_secs(3));
    let off = legal("s3.compaction.interval.ms=0").storage.background;
    assert!(off.compaction.interval.is_zero());
    for (text, names) in [
        ("s3.object.delete.retention.ms=0", "retention.ms"),
        ("s3.stream.set.object.compaction.max.num=1", "max.num"),
        ("s3.stream.object.compaction.max.size.bytes=1", "max.size"),
        (
            "s3.stream.object.compaction.max.size.bytes=6GiB",
            "max.size",
        ),
        (
            "s3.stream.set.object.compaction.max.size.bytes=6GiB",
            "max.size",
        ),
    ] {
        let errors = errors(text);
        assert!(errors[0].contains(names), "{errors:?}");
    }
}

#[test]
fn who_serves_consumers_of_other_zones_is_said_by_kafkas_classes() {
    let of = |class: &str| legal(&format!("replica.selector.class={class}")).replica_selector;
    assert_eq!(legal("").replica_selector, ReplicaSelector::Zone);
    let class = |name: &str| format!("org.apache.kafka.common.replica.{name}");
    assert_eq!(of(&class("LeaderSelector")), ReplicaSelector::Leader);
    assert_eq!(
        of(&class("RackAwareReplicaSelector")),
        ReplicaSelector::ListedZone
    );
    let errors = errors("replica.selector.class=com.example.Nearest");
    assert!(errors[0].contains("com.example.Nearest"), "{errors:?}");
}

#[test]
fn a_log_on_a_volume_needs_the_zone_where_others_may_take_it_over() {
    let log =
        "s3.wal.path=0@file:///dev/nvme1n1?capacity=0&fence=detach&volume=vol-0123456789abcdef0";
    let cluster = "metadata.database.url=postgres://localhost/m";
    let errors = errors(&format!("{log}\n{cluster}"));
    assert!(
        errors[0].contains("broker.rack") && errors[0].contains("eu-central-1a"),
        "{errors:?}"
    );
    legal(&format!("{log}\n{cluster}\nbroker.rack=eu-central-1a"));
    legal(log);
}

#[test]
fn the_brokers_defaults_of_topics_are_read_under_kafkas_names() {
    let text = "log.cleanup.policy=compact\nlog.roll.hours=2\nmin.insync.replicas=2\n\
                log.message.timestamp.after.max.ms=5\nlog.flush.scheduler.interval.ms=7";
    let config = BrokerConfig::new(&Properties::parse(text).expect("legal")).expect("legal");
    let topic: Vec<_> = config.log.topic.iter().collect();
    let expected = [
        ("cleanup.policy", "compact"),
        ("flush.ms", "7"),
        ("message.timestamp.after.max.ms", "5"),
        ("min.insync.replicas", "2"),
        ("segment.ms", "7200000"),
    ];
    let expected = expected.map(|(name, value)| (name, value.to_owned()));
    assert_eq!(
        topic,
        expected.iter().map(|(n, v)| (n, v)).collect::<Vec<_>>()
    );
    let shown = |key: &str| config.settings.iter().find(|s| s.key == key);
    assert!(!shown("log.roll.hours").expect("shown").is_default);
    assert!(shown("log.segment.bytes").expect("shown").is_default);
}

#[test]
fn what_no_part_of_the_broker_does_stops_the_start_with_a_reason() {
    let text = "delete.topic.enable=false\nlog.segment.bytes=7\nbroker.id=4\nnode.id=5\n\
                create.topic.policy.class.name=a.B\nnum.io.threads=8";
    let errors = BrokerConfig::new(&Properties::parse(text).expect("legal")).expect_err("wrong");
    let mut keys: Vec<_> = errors.iter().map(|error| error.key.to_string()).collect();
    keys.sort();
    let expected = [
        "broker.id",
        "create.topic.policy.class.name",
        "delete.topic.enable",
        "log.segment.bytes",
    ];
    assert_eq!(keys, expected, "{errors:?}");
    let text = errors
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        text.contains("Java classes cannot be loaded; remove the line"),
        "{text}"
    );
    assert!(
        text.contains("\"7\" is not a whole number from 1048576 to 2147483647"),
        "{text}"
    );
}

#[test]
fn the_file_that_comes_with_kafka_is_accepted() {
    let text = "process.roles=broker,controller\nnode.id=1\n\
                controller.quorum.bootstrap.servers=localhost:9093\n\
                listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n\
                inter.broker.listener.name=PLAINTEXT\n\
                advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n\
                controller.listener.names=CONTROLLER\n\
                num.network.threads=3\nnum.io.threads=8\nsocket.send.buffer.bytes=102400\n\
                socket.receive.buffer.bytes=102400\nsocket.request.max.bytes=104857600\n\
                log.dirs=/tmp/kraft-combined-logs\nnum.partitions=1\n\
                num.recovery.threads.per.data.dir=1\noffsets.topic.replication.factor=1\n\
                share.coordinator.state.topic.replication.factor=1\n\
                share.coordinator.state.topic.min.isr=1\n\
                transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
                log.retention.hours=168\nlog.segment.bytes=1073741824\n\
                log.retention.check.interval.ms=300000";
    let config = BrokerConfig::new(&Properties::parse(text).expect("legal")).expect("accepted");
    assert_eq!(config.unknown, Vec::<String>::new());
}

#[test]
fn the_properties_of_the_share_coordinator_hold_or_are_rejected() {
    let default = legal("");
    assert_eq!(default.log.share_state_topic_partitions, 50);
    assert_eq!(default.share_states.updates_per_snapshot, 500);
    assert_eq!(default.share_states.write_timeout, Duration::from_secs(5));
    let set = legal(
        "share.coordinator.state.topic.num.partitions=3\n\
         share.coordinator.snapshot.update.records.per.snapshot=0\n\
         share.coordinator.write.timeout.ms=100\nshare.coordinator.threads=4\n\
         share.coordinator.append.linger.ms=-1\nshare.coordinator.load.buffer.size=5242880\n\
         share.coordinator.state.topic.segment.bytes=104857600\n\
         share.coordinator.state.topic.compression.codec=0\n\
         share.coordinator.state.topic.prune.interval.ms=300000",
    );
    assert_eq!(set.log.share_state_topic_partitions, 3);
    assert_eq!(set.share_states.updates_per_snapshot, 0);
    assert_eq!(set.share_states.write_timeout, Duration::from_millis(100));
    assert_eq!(set.unknown, Vec::<String>::new());
    for rejected in [
        "share.coordinator.snapshot.update.records.per.snapshot=501",
        "share.coordinator.write.timeout.ms=0",
        "share.coordinator.state.topic.num.partitions=0",
        "share.coordinator.state.topic.compression.codec=1",
        "share.coordinator.unheard.of=1",
    ] {
        assert_eq!(errors(rejected).len(), 1, "{rejected}");
    }
}
