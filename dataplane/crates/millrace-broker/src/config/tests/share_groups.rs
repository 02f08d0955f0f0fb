//! `group.share.*`

use millrace_coordinator::{AllowedTime, GroupConfigLimits};

use super::*;

#[test]
fn share_groups_have_kafkas_defaults() {
    let set = legal("");
    let limits = set.group.of_groups.limits();
    assert_eq!(*limits, GroupConfigLimits::default());
    assert_eq!(set.group.share.group_size_max, 200);
    assert_eq!(set.share, ShareConfig::default());
}

#[test]
fn all_settings_of_share_groups_take_effect() {
    let set = legal(
        "group.share.session.timeout.ms=30000\ngroup.share.min.session.timeout.ms=20000\n\
         group.share.max.session.timeout.ms=90000\ngroup.share.heartbeat.interval.ms=2000\n\
         group.share.min.heartbeat.interval.ms=1000\ngroup.share.max.heartbeat.interval.ms=9000\n\
         group.share.record.lock.duration.ms=10000\n\
         group.share.min.record.lock.duration.ms=4000\n\
         group.share.max.record.lock.duration.ms=40000\n\
         group.share.max.size=7\ngroup.share.delivery.count.limit=3\n\
         group.share.partition.max.record.locks=500\ngroup.share.max.share.sessions=11\n\
         group.share.assignors=org.apache.kafka.coordinator.group.assignor.SimpleAssignor",
    );
    let limits = set.group.of_groups.limits();
    let millis =
        |time: AllowedTime| [time.default, time.min, time.max].map(|duration| duration.as_millis());
    assert_eq!(
        millis(limits.share_session_timeout),
        [30_000, 20_000, 90_000]
    );
    assert_eq!(
        millis(limits.share_heartbeat_interval),
        [2_000, 1_000, 9_000]
    );
    let record_lock = limits.share_record_lock_duration;
    assert_eq!(millis(record_lock), [10_000, 4_000, 40_000]);
    assert_eq!(set.group.share.group_size_max, 7);
    // The leaders of share partitions have the same default as the groups.
    assert_eq!(set.share.group.record_lock, record_lock.default);
    assert_eq!(set.share.group.delivery_count_limit, 3);
    assert_eq!(set.share.record_locks_max, 500);
    assert_eq!(set.share.sessions_max, 11);
}

#[test]
fn settings_of_share_groups_that_contradict_each_other_are_errors() {
    for (text, key) in [
        (
            "group.share.session.timeout.ms=44999",
            "group.share.session.timeout.ms",
        ),
        (
            "group.share.max.session.timeout.ms=44999",
            "group.share.session.timeout.ms",
        ),
        (
            "group.share.heartbeat.interval.ms=45000\ngroup.share.max.heartbeat.interval.ms=45000",
            "group.share.heartbeat.interval.ms",
        ),
        (
            "group.share.record.lock.duration.ms=60001",
            "group.share.record.lock.duration.ms",
        ),
        ("group.share.max.size=1001", "group.share.max.size"),
        ("group.share.max.size=0", "group.share.max.size"),
        (
            "group.share.delivery.count.limit=1",
            "group.share.delivery.count.limit",
        ),
        (
            "group.share.partition.max.record.locks=99",
            "group.share.partition.max.record.locks",
        ),
        (
            "group.share.max.share.sessions=0",
            "group.share.max.share.sessions",
        ),
        ("group.share.assignors=range", "group.share.assignors"),
        ("group.share.unheard.of=1", "group.share.unheard.of"),
    ] {
        let errors = errors(text);
        let [error] = &errors[..] else {
            panic!("one error for {text:?}: {errors:?}");
        };
        assert!(error.starts_with(key), "{text:?}: {error}");
    }
}
