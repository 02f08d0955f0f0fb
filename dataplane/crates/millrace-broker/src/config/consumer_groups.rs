//! `group.consumer.*`: consumer groups, whose partitions the broker assigns (KIP-848).

use millrace_coordinator::{
    AllowedTime, Assignor, GroupConfigLimits,
    config::{ConsumerGroupConfig, MigrationPolicy},
};

use super::{MILLIS_MAX, reader::Reader};

const SESSION: TimeKeys = TimeKeys {
    key: "group.consumer.session.timeout.ms",
    min: "group.consumer.min.session.timeout.ms",
    max: "group.consumer.max.session.timeout.ms",
};
const HEARTBEAT: TimeKeys = TimeKeys {
    key: "group.consumer.heartbeat.interval.ms",
    min: "group.consumer.min.heartbeat.interval.ms",
    max: "group.consumer.max.heartbeat.interval.ms",
};
const ASSIGNORS: &str = "group.consumer.assignors";
const MIGRATION: &str = "group.consumer.migration.policy";

/// The settings, and which of them single groups may override.
pub(super) fn read_consumer_groups(r: &mut Reader<'_>) -> (ConsumerGroupConfig, GroupConfigLimits) {
    let default = ConsumerGroupConfig::default();
    let limits = GroupConfigLimits::default();
    let session = read_between(r, SESSION, limits.consumer_session_timeout);
    let interval = read_between(r, HEARTBEAT, limits.consumer_heartbeat_interval);
    check_shorter(r, (HEARTBEAT.key, interval), (SESSION.key, session));
    let members = i64::from(i32::MAX);
    let group_size_max = r.number("group.consumer.max.size", members, 1..=members);
    let limits = GroupConfigLimits {
        consumer_session_timeout: session,
        consumer_heartbeat_interval: interval,
        ..limits
    };
    let config = ConsumerGroupConfig {
        session_timeout: session.default,
        heartbeat_interval: interval.default,
        group_size_max: usize::try_from(group_size_max).unwrap_or(default.group_size_max),
        assignors: read_assignors(r),
        migration: read_migration(r),
    };
    (config, limits)
}

/// The properties of a time that groups may set, and of the least and the longest that they may set.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeKeys {
    pub(super) key: &'static str,
    pub(super) min: &'static str,
    pub(super) max: &'static str,
}

/// Reads a time and its bounds.
pub(super) fn read_between(
    r: &mut Reader<'_>,
    keys: TimeKeys,
    default: AllowedTime,
) -> AllowedTime {
    let value = r.millis(keys.key, default.default, 1..=MILLIS_MAX);
    let min = r.millis(keys.min, default.min, 1..=MILLIS_MAX);
    let max = r.millis(keys.max, default.max, 1..=MILLIS_MAX);
    if !(min..=max).contains(&value) {
        let problem = format!("it is not between {} and {}", keys.min, keys.max);
        r.fail(keys.key, problem, "change it or the bounds");
    }
    AllowedTime {
        default: value,
        min,
        max,
    }
}

/// A member must be able to send a heartbeat before its session ends.
pub(super) fn check_shorter(
    r: &mut Reader<'_>,
    (heartbeat_key, heartbeat): (&'static str, AllowedTime),
    (session_key, session): (&'static str, AllowedTime),
) {
    if heartbeat.default >= session.default {
        let problem = format!("it is not shorter than {session_key}");
        r.fail(heartbeat_key, problem, "lower it or raise the other");
    }
}

/// Names, or the classes by which Kafka's own files may name them.
fn read_assignors(r: &mut Reader<'_>) -> Vec<Assignor> {
    let text = r.text(ASSIGNORS, "uniform,range");
    let named = |name: &str| match name {
        "org.apache.kafka.coordinator.group.assignor.UniformAssignor" => Some(Assignor::Uniform),
        "org.apache.kafka.coordinator.group.assignor.RangeAssignor" => Some(Assignor::Range),
        name => Assignor::named(name),
    };
    let names = text.split(',').map(str::trim);
    let assignors: Option<Vec<Assignor>> = names.map(named).collect();
    assignors.unwrap_or_else(|| {
        let problem = format!("{text:?} names an assignor that the broker does not have");
        r.fail(ASSIGNORS, problem, "write uniform, range or both");
        Vec::new()
    })
}

fn read_migration(r: &mut Reader<'_>) -> MigrationPolicy {
    let text = r.text(MIGRATION, "bidirectional");
    MigrationPolicy::named(&text.to_ascii_lowercase()).unwrap_or_else(|| {
        let problem = format!("{text:?} is not a policy");
        let remedy = "write bidirectional, upgrade, downgrade or disabled";
        r.fail(MIGRATION, problem, remedy);
        MigrationPolicy::Bidirectional
    })
}
