use super::*;

fn entity(parts: &[(&str, Option<&str>)]) -> QuotaEntity {
    QuotaEntity::from_parts(parts.iter().copied()).expect("legal")
}

/// Types and names; no name is the default.
type Parts = &'static [(&'static str, Option<&'static str>)];

const RATE: QuotaKind = QuotaKind::ProducerByteRate;

/// The levels of KIP-55, the most specific first, with who shares the limit.
const LEVELS: [(Parts, Option<&str>, Option<&str>); 8] = [
    (
        &[("user", Some("u")), ("client-id", Some("c"))],
        Some("u"),
        Some("c"),
    ),
    (
        &[("user", Some("u")), ("client-id", None)],
        Some("u"),
        Some("c"),
    ),
    (&[("user", Some("u"))], Some("u"), None),
    (
        &[("user", None), ("client-id", Some("c"))],
        Some("u"),
        Some("c"),
    ),
    (&[("user", None), ("client-id", None)], Some("u"), Some("c")),
    (&[("user", None)], Some("u"), None),
    (&[("client-id", Some("c"))], None, Some("c")),
    (&[("client-id", None)], None, Some("c")),
];

#[test]
fn the_most_specific_quota_holds_and_the_next_one_when_it_is_removed() {
    let all = LEVELS.iter().zip(1_u32..);
    let stored = all.map(|((parts, ..), rate)| (entity(parts), RATE, f64::from(rate)));
    let mut table = QuotaTable::new(stored);
    for ((parts, user, client_id), rate) in LEVELS.iter().zip(1_u32..) {
        let limit = table.limit(RATE, "u", "c").expect("a limit");
        let meter = MeterKey {
            user: user.map(Into::into),
            client_id: client_id.map(Into::into),
        };
        let expected = Limit {
            value: f64::from(rate),
            meter,
        };
        assert_eq!(limit, expected, "{parts:?}");
        assert_eq!(table.limit_of(RATE, &limit.meter), Some(limit.value));
        table.apply([(entity(parts), RATE, None)]);
    }
    assert_eq!(table.limit(RATE, "u", "c"), None);
    assert!(table.is_unlimited(RATE));
}

#[test]
fn other_users_clients_and_kinds_are_not_limited() {
    let table = QuotaTable::new([
        (entity(LEVELS[0].0), RATE, 1.0),
        (entity(LEVELS[2].0), QuotaKind::RequestPercentage, 2.0),
    ]);
    assert!(table.limit(RATE, "u", "other").is_none());
    assert!(table.limit(RATE, "other", "c").is_none());
    let whole = table.limit(QuotaKind::RequestPercentage, "u", "c");
    assert_eq!(
        whole.map(|limit| limit.value),
        Some(2.0),
        "each kind by itself"
    );
    assert!(table.is_unlimited(QuotaKind::ConsumerByteRate));
    assert!(!table.is_unlimited(RATE));
}

#[test]
fn addresses_have_a_default() {
    let kind = QuotaKind::ConnectionCreationRate;
    let table = QuotaTable::new([
        (entity(&[("ip", Some("::ffff:10.0.0.1"))]), kind, 5.0),
        (entity(&[("ip", None)]), kind, 9.0),
    ]);
    assert_eq!(table.ip_limit(kind, "10.0.0.1"), Some(5.0));
    assert_eq!(table.ip_limit(kind, "10.0.0.2"), Some(9.0));
    assert!(!table.is_unlimited(kind));
}

#[test]
fn illegal_entities_are_refused() {
    let long = "x".repeat(ENTITY_NAME_BYTES_MAX + 1);
    let refused = |parts: &[(&str, Option<&str>)]| {
        QuotaEntity::from_parts(parts.iter().copied())
            .expect_err("illegal")
            .to_string()
    };
    for (parts, expected) in [
        (&[][..], "Invalid empty client quota entity"),
        (
            &[("ip", None), ("user", None)],
            "Invalid empty client quota entity",
        ),
        (
            &[("user", None), ("user", Some("a"))],
            "duplicate entity entry user",
        ),
        (
            &[("group", None)],
            "Unhandled client quota entity type: group",
        ),
        (&[("client-id", Some(""))], "Empty client-id not supported"),
        (&[("ip", Some("1.2.3"))], "1.2.3 is not a valid IP"),
        (&[("user", Some(&long))], "has 513 bytes"),
    ] {
        assert!(
            refused(parts).contains(expected),
            "{parts:?}: {}",
            refused(parts)
        );
    }
}

#[test]
fn keys_belong_to_entities_and_values_to_keys() {
    let user = entity(&[("user", None)]);
    let ip = entity(&[("ip", None)]);
    assert_eq!(user.kind("producer_byte_rate"), Ok(RATE));
    assert!(user.kind("connection_creation_rate").is_err());
    assert!(ip.kind("producer_byte_rate").is_err());
    assert!(ip.kind("connection_creation_rate").is_ok());
    assert!(user.kind("nonsense").is_err());
    for (kind, value) in [
        (RATE, 0.0),
        (RATE, -1.0),
        (RATE, f64::NAN),
        (RATE, 1.5),
        (RATE, 1e19),
        (QuotaKind::ConnectionCreationRate, 3e9),
        (QuotaKind::RequestPercentage, 0.0),
        (QuotaKind::RequestPercentage, f64::INFINITY),
        (QuotaKind::ControllerMutationRate, f64::INFINITY),
    ] {
        assert!(kind.check(value).is_err(), "{kind:?} {value}");
    }
    for (kind, value) in [
        (RATE, 1.0),
        (RATE, 9_223_372_036_854_775_807.0),
        (QuotaKind::RequestPercentage, 0.5),
        (QuotaKind::ControllerMutationRate, 2.5),
    ] {
        assert_eq!(kind.check(value), Ok(()), "{kind:?} {value}");
    }
}

#[test]
fn filters_match_exactly_by_default_or_by_type() {
    let all = LEVELS.map(|(parts, ..)| entity(parts));
    let table = QuotaTable::new(all.iter().map(|entity| (entity.clone(), RATE, 1.0)));
    let count = |parts: &[(&str, i8, Option<&str>)], strict| {
        let filter = QuotaFilter::new(parts.iter().copied(), strict).expect("legal");
        table.find(&filter).count()
    };
    assert_eq!((count(&[], false), count(&[], true)), (8, 0));
    assert_eq!(count(&[("user", 0, Some("u"))], false), 3);
    assert_eq!(count(&[("user", 0, Some("u"))], true), 1);
    assert_eq!(count(&[("user", 1, None)], false), 3);
    assert_eq!(count(&[("user", 2, None)], false), 6);
    assert_eq!(count(&[("user", 2, None)], true), 2);
    assert_eq!(count(&[("user", 2, None), ("client-id", 1, None)], true), 2);
    assert_eq!(count(&[("client-id", 0, Some("c"))], true), 1);
    assert_eq!(count(&[("ip", 2, None)], false), 0);
}

#[test]
fn illegal_filters_are_refused() {
    for (parts, expected) in [
        (&[("", 0, None)][..], InvalidFilter::EmptyType),
        (&[("x", 0, None)], InvalidFilter::UnknownType("x".into())),
        (&[("user", 0, None)], InvalidFilter::ExactWithoutText),
        (
            &[("user", 1, Some("a"))],
            InvalidFilter::UnwantedText("MATCH_TYPE_DEFAULT"),
        ),
        (
            &[("user", 2, Some("a"))],
            InvalidFilter::UnwantedText("MATCH_TYPE_SPECIFIED"),
        ),
        (&[("user", 3, None)], InvalidFilter::UnknownMatch(3)),
        (
            &[("user", 2, None), ("user", 1, None)],
            InvalidFilter::Twice("user"),
        ),
        (
            &[("user", 2, None), ("ip", 1, None)],
            InvalidFilter::IpWithOthers,
        ),
    ] {
        let refused = QuotaFilter::new(parts.iter().copied(), false);
        assert_eq!(refused, Err(expected));
    }
}

#[test]
fn long_client_ids_are_cut_between_characters() {
    assert_eq!(entity_name("short"), "short");
    let long = "ä".repeat(20_000);
    assert_eq!(entity_name(&long).len(), ENTITY_NAME_BYTES_MAX);
    let odd = format!("x{long}");
    assert_eq!(entity_name(&odd).len(), ENTITY_NAME_BYTES_MAX - 1);
}

#[test]
fn only_so_many_entities_have_quotas() {
    let user = |n: usize| entity(&[("user", Some(&format!("u{n}")))]);
    let full = QuotaTable::new((0..QUOTA_ENTITIES_MAX).map(|n| (user(n), RATE, 1.0)));
    assert!(full.contains(&user(7)) && !full.contains(&user(QUOTA_ENTITIES_MAX)));
    assert_eq!(
        (full.has_room(0), full.has_room(1)),
        (Ok(()), Err(TooManyEntities))
    );
}

#[test]
fn what_holds_changes_at_once() {
    let live = LiveQuotas::default();
    assert!(!live.is_limited(RATE));
    live.set(QuotaTable::new([(entity(LEVELS[2].0), RATE, 1.0)]));
    assert!(live.is_limited(RATE));
    assert!(live.table().limit(RATE, "u", "c").is_some());
    live.set(QuotaTable::default());
    assert!(!live.is_limited(RATE));
}
