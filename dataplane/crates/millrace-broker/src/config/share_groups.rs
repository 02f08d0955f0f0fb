//! `group.share.*`: share groups, whose members share partitions (KIP-932).

use std::time::Duration;

use millrace_coordinator::{GroupConfigLimits, config::ShareGroupConfig};

use super::{consumer_groups::read_between, reader::Reader};

const SESSION: &str = "group.share.session.timeout.ms";
const HEARTBEAT: &str = "group.share.heartbeat.interval.ms";
const SIZE: &str = "group.share.max.size";
const ASSIGNORS: &str = "group.share.assignors";

/// The most members that a group may be given, as in Kafka.
const SIZE_MAX: i64 = 1_000;

/// The settings; `limits` are told which of them single groups may override.
pub(super) fn read_share_groups(
    r: &mut Reader<'_>,
    limits: &mut GroupConfigLimits,
) -> ShareGroupConfig {
    let default = ShareGroupConfig::default();
    let keys = (
        "group.share.min.session.timeout.ms",
        "group.share.max.session.timeout.ms",
    );
    let bounds = (default.session_timeout, Duration::from_secs(60));
    let session = read_between(r, SESSION, default.session_timeout, keys, bounds);
    let keys = (
        "group.share.min.heartbeat.interval.ms",
        "group.share.max.heartbeat.interval.ms",
    );
    let interval = default.heartbeat_interval;
    let bounds = (interval, Duration::from_secs(15));
    let interval = read_between(r, HEARTBEAT, interval, keys, bounds);
    if interval.default >= session.default {
        let problem = format!("it is not shorter than {SESSION}");
        r.fail(HEARTBEAT, problem, "lower it or raise the other");
    }
    let size = i64::try_from(default.group_size_max).unwrap_or(SIZE_MAX);
    let size = r.number(SIZE, size, 1..=SIZE_MAX);
    check_assignors(r);
    limits.share_session_timeout = session;
    limits.share_heartbeat_interval = interval;
    ShareGroupConfig {
        session_timeout: session.default,
        heartbeat_interval: interval.default,
        group_size_max: usize::try_from(size).unwrap_or(default.group_size_max),
    }
}

/// There is one, by its name, or by the class by which Kafka's own files may name it.
fn check_assignors(r: &mut Reader<'_>) {
    let name = r.text(ASSIGNORS, "simple");
    let class = "org.apache.kafka.coordinator.group.assignor.SimpleAssignor";
    if !["simple", class].contains(&name.trim()) {
        let problem = format!("{name:?} is an assignor that the broker does not have");
        r.fail(ASSIGNORS, problem, "write simple");
    }
}
