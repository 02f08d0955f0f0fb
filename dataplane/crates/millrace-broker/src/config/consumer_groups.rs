//! `group.consumer.*`: consumer groups, whose partitions the broker assigns (KIP-848).

use std::time::Duration;

use millrace_coordinator::{
    AllowedTime, Assignor, GroupConfigLimits,
    config::{ConsumerGroupConfig, MigrationPolicy},
};

use super::{MILLIS_MAX, reader::Reader};

const SESSION: &str = "group.consumer.session.timeout.ms";
const HEARTBEAT: &str = "group.consumer.heartbeat.interval.ms";
const ASSIGNORS: &str = "group.consumer.assignors";
const MIGRATION: &str = "group.consumer.migration.policy";

/// The settings, and which of them single groups may override.
pub(super) fn read_consumer_groups(r: &mut Reader<'_>) -> (ConsumerGroupConfig, GroupConfigLimits) {
    let default = ConsumerGroupConfig::default();
    let longest = Duration::from_secs(60);
    let session = (
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    );
    let bounds = (default.session_timeout, longest);
    let session = read_between(r, SESSION, default.session_timeout, session, bounds);
    let heartbeat = (
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    );
    let bounds = (default.heartbeat_interval, Duration::from_secs(15));
    let interval = default.heartbeat_interval;
    let interval = read_between(r, HEARTBEAT, interval, heartbeat, bounds);
    if interval.default >= session.default {
        let problem = format!("it is not shorter than {SESSION}");
        r.fail(HEARTBEAT, problem, "lower it or raise the other");
    }
    let members = i64::from(i32::MAX);
    let group_size_max = r.number("group.consumer.max.size", members, 1..=members);
    let limits = GroupConfigLimits {
        consumer_session_timeout: session,
        consumer_heartbeat_interval: interval,
        ..GroupConfigLimits::default()
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

/// A time, and the properties of the least and the longest that it may be.
fn read_between(
    r: &mut Reader<'_>,
    key: &'static str,
    default: Duration,
    (min_key, max_key): (&'static str, &'static str),
    (min, max): (Duration, Duration),
) -> AllowedTime {
    let value = r.millis(key, default, 1..=MILLIS_MAX);
    let min = r.millis(min_key, min, 1..=MILLIS_MAX);
    let max = r.millis(max_key, max, 1..=MILLIS_MAX);
    if !(min..=max).contains(&value) {
        let problem = format!("it is not between {min_key} and {max_key}");
        r.fail(key, problem, "change it or the bounds");
    }
    AllowedTime {
        default: value,
        min,
        max,
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
