use super::*;

fn configs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

fn refused(pairs: &[(&str, &str)]) -> String {
    let validated = GroupConfigs::default().validate(&configs(pairs));
    validated.expect_err("illegal").to_string()
}

#[test]
fn every_default_is_legal() {
    let groups = GroupConfigs::default();
    let limits = groups.limits();
    let all = GroupConfigDefinition::all().iter();
    let all = all.map(|d| (d.name.to_owned(), d.default(limits)));
    let all: BTreeMap<String, String> = all.collect();
    assert_eq!(all.len(), GroupConfigDefinition::all().len());
    assert_eq!(groups.validate(&all), Ok(()));
    let unset = groups.share("g");
    groups.replace([("g", &all)]);
    assert_eq!(groups.share("g"), unset);
}

#[test]
fn a_group_has_what_is_set_for_it_over_what_the_broker_sets() {
    let groups = GroupConfigs::default();
    let set = configs(&[
        ("consumer.session.timeout.ms", "50000"),
        ("share.record.lock.duration.ms", " 20000 "),
        ("share.auto.offset.reset", "BY_DURATION:PT1H"),
        ("share.isolation.level", "read_committed"),
    ]);
    assert_eq!(groups.validate(&set), Ok(()));
    groups.replace([("g", &set)]);
    let overrides = groups.overrides("g");
    assert_eq!(
        overrides.consumer_session_timeout,
        Some(Duration::from_secs(50))
    );
    assert_eq!(overrides.consumer_heartbeat_interval, None);
    assert_eq!(
        overrides.share_record_lock_duration,
        Some(Duration::from_secs(20))
    );
    let reset = ShareOffsetReset::ByDuration(Duration::from_secs(3_600));
    assert_eq!(overrides.share_auto_offset_reset, Some(reset));
    let share = groups.share("g");
    assert_eq!(share.session_timeout, Duration::from_secs(45));
    let set = groups.overrides("g");
    assert_eq!(set.share_isolation, Some(ShareIsolation::ReadCommitted));
    assert_eq!(groups.overrides("other"), GroupOverrides::default());
    groups.replace([]);
    assert_eq!(groups.overrides("g"), GroupOverrides::default());
}

#[test]
fn what_is_not_legal_is_refused_with_a_reason() {
    for (pairs, reason) in [
        (
            &[("consumer.session.timeout.ms", "1")][..],
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            &[("share.record.lock.duration.ms", "60001")],
            "share.record.lock.duration.ms must be less than or equal to group.share.max.record.lock.duration.ms",
        ),
        (
            &[("share.heartbeat.interval.ms", "soon")],
            "Invalid value soon for configuration share.heartbeat.interval.ms: Not a number of type INT",
        ),
        (
            &[("share.heartbeat.interval.ms", "-5000")],
            "Invalid value -5000 for configuration share.heartbeat.interval.ms: Value must be at least 1",
        ),
        (
            &[("share.auto.offset.reset", "by_duration:-PT1H")],
            "Invalid value by_duration:-PT1H for configuration share.auto.offset.reset: must be earliest, latest or \
             by_duration:PnDTnHnMn.nS",
        ),
        (
            &[("share.isolation.level", "serializable")],
            "Invalid value serializable for configuration share.isolation.level: must be read_committed or \
             read_uncommitted",
        ),
        (
            &[("streams.num.standby.replicas", "1")],
            "streams.num.standby.replicas cannot be set: this cluster has no streams groups",
        ),
        (
            &[("share.delivery.count.limit", "1")],
            "Unknown group config name: share.delivery.count.limit",
        ),
    ] {
        assert_eq!(refused(pairs), reason);
    }
}

#[test]
fn a_session_is_longer_than_the_interval_of_its_heartbeats() {
    let limits = GroupConfigLimits {
        share_session_timeout: AllowedTime::millis(45_000, 1_000, 60_000),
        ..GroupConfigLimits::default()
    };
    let groups = GroupConfigs::new(limits);
    let set = configs(&[("share.session.timeout.ms", "5000")]);
    let refused = groups.validate(&set).expect_err("as long as the interval");
    assert_eq!(
        refused.to_string(),
        "share.session.timeout.ms must be greater than share.heartbeat.interval.ms"
    );
    let set = configs(&[("share.session.timeout.ms", "5001")]);
    assert_eq!(groups.validate(&set), Ok(()));
}

#[test]
fn what_is_stored_and_not_legal_any_more_has_no_effect() {
    let groups = GroupConfigs::default();
    let stored = configs(&[
        ("consumer.session.timeout.ms", "1"),
        ("consumer.heartbeat.interval.ms", "6000"),
        ("unheard.of", "1"),
    ]);
    groups.replace([("g", &stored)]);
    let expected = GroupOverrides {
        consumer_heartbeat_interval: Some(Duration::from_secs(6)),
        ..GroupOverrides::default()
    };
    assert_eq!(groups.overrides("g"), expected);
}
