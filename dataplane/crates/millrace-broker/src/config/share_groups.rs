//! `group.share.*`: share groups (KIP-932).

use std::time::Duration;

use millrace_api::{GroupSettings, ShareConfig};
use millrace_coordinator::{GroupConfigLimits, config::ShareGroupConfig};

use super::{
    consumer_groups::{TimeKeys, check_shorter, read_between},
    reader::Reader,
};

const SESSION: TimeKeys = TimeKeys {
    key: "group.share.session.timeout.ms",
    min: "group.share.min.session.timeout.ms",
    max: "group.share.max.session.timeout.ms",
};
const HEARTBEAT: TimeKeys = TimeKeys {
    key: "group.share.heartbeat.interval.ms",
    min: "group.share.min.heartbeat.interval.ms",
    max: "group.share.max.heartbeat.interval.ms",
};
const RECORD_LOCK: TimeKeys = TimeKeys {
    key: "group.share.record.lock.duration.ms",
    min: "group.share.min.record.lock.duration.ms",
    max: "group.share.max.record.lock.duration.ms",
};
const ASSIGNORS: &str = "group.share.assignors";

/// The settings of their coordinator; `limits` gets which of them single groups may override.
pub(super) fn read_share_groups(
    r: &mut Reader<'_>,
    limits: &mut GroupConfigLimits,
) -> ShareGroupConfig {
    limits.share_session_timeout = read_between(r, SESSION, limits.share_session_timeout);
    limits.share_heartbeat_interval = read_between(r, HEARTBEAT, limits.share_heartbeat_interval);
    limits.share_record_lock_duration =
        read_between(r, RECORD_LOCK, limits.share_record_lock_duration);
    let (session, interval) = (
        limits.share_session_timeout,
        limits.share_heartbeat_interval,
    );
    check_shorter(r, (HEARTBEAT.key, interval), (SESSION.key, session));
    let assignors = r.text(ASSIGNORS, "simple");
    let is_simple = [
        "simple",
        "org.apache.kafka.coordinator.group.assignor.SimpleAssignor",
    ];
    if !is_simple.contains(&assignors.trim()) {
        let problem = format!("{assignors:?} names an assignor that the broker does not have");
        r.fail(ASSIGNORS, problem, "write simple");
    }
    let default = ShareGroupConfig::default();
    let group_size_max = r.number("group.share.max.size", 200, 1..=1_000);
    ShareGroupConfig {
        group_size_max: usize::try_from(group_size_max).unwrap_or(default.group_size_max),
    }
}

/// The settings of the leaders of share partitions.
pub(super) fn read_share_partitions(r: &mut Reader<'_>, record_lock: Duration) -> ShareConfig {
    let default = ShareConfig::default();
    let limit = r.number(
        "group.share.delivery.count.limit",
        default.group.delivery_count_limit.into(),
        2..=10,
    );
    let locks = r.number(
        "group.share.partition.max.record.locks",
        default.record_locks_max.into(),
        100..=10_000,
    );
    let sessions = r.number("group.share.max.share.sessions", 2_000, 1..=1_000_000);
    ShareConfig {
        group: GroupSettings {
            record_lock,
            delivery_count_limit: i16::try_from(limit)
                .unwrap_or(default.group.delivery_count_limit),
            ..default.group
        },
        record_locks_max: u32::try_from(locks).unwrap_or(default.record_locks_max),
        sessions_max: usize::try_from(sessions).unwrap_or(default.sessions_max),
    }
}
