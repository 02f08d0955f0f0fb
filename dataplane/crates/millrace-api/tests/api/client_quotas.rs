//! Client quotas: set, described and removed by a client, and kept over a restart.

use kafka_protocol::messages::{
    AlterClientQuotasRequest, DescribeClientQuotasRequest,
    alter_client_quotas_request::{EntityData, EntryData, OpData},
    describe_client_quotas_request::ComponentData,
};

use crate::world::{World, text};

const INVALID_REQUEST: i16 = 42;
const UNSUPPORTED_VERSION: i16 = 35;

/// Types and names; no name is the default.
type Parts<'a> = &'a [(&'a str, Option<&'a str>)];
/// Keys and values; no value removes.
type Quotas<'a> = &'a [(&'a str, Option<f64>)];

pub(crate) fn entry(parts: Parts<'_>, quotas: Quotas<'_>) -> EntryData {
    let part = |(kind, name): &(&str, Option<&str>)| {
        EntityData::default()
            .with_entity_type(text(kind))
            .with_entity_name(name.map(text))
    };
    let op = |(key, value): &(&str, Option<f64>)| {
        OpData::default()
            .with_key(text(key))
            .with_value(value.unwrap_or_default())
            .with_remove(value.is_none())
    };
    EntryData::default()
        .with_entity(parts.iter().map(part).collect())
        .with_ops(quotas.iter().map(op).collect())
}

impl World {
    /// Changes quotas; the error of each entity, with its text.
    pub(crate) async fn alter_quotas(&self, entries: Vec<EntryData>) -> Vec<(i16, String)> {
        let request = AlterClientQuotasRequest::default().with_entries(entries);
        self.alter_quotas_with(request).await
    }

    async fn alter_quotas_with(&self, request: AlterClientQuotasRequest) -> Vec<(i16, String)> {
        let entries = self.ask(1, &request).await.entries.into_iter();
        entries
            .map(|entry| {
                let message = entry.error_message.unwrap_or_default();
                (entry.error_code, message.to_string())
            })
            .collect()
    }

    /// Each entity as text, with its quotas.
    async fn quotas(&self, filter: &[(&str, i8, Option<&str>)], strict: bool) -> Vec<String> {
        let response = self.ask(1, &describe(filter, strict)).await;
        assert_eq!(response.error_code, 0, "{response:?}");
        let entries = response.entries.expect("entries").into_iter();
        let mut all: Vec<_> = entries
            .map(|entry| {
                let parts = entry.entity.iter().map(|part| {
                    let name = part.entity_name.as_ref().map_or("<default>", |name| name);
                    format!("{}={name}", &*part.entity_type)
                });
                let values = entry.values.iter();
                let values = values.map(|value| format!("{}:{}", &*value.key, value.value));
                parts.chain(values).collect::<Vec<_>>().join(" ")
            })
            .collect();
        all.sort();
        all
    }
}

fn describe(filter: &[(&str, i8, Option<&str>)], strict: bool) -> DescribeClientQuotasRequest {
    let component = |(kind, match_type, name): &(&str, i8, Option<&str>)| {
        ComponentData::default()
            .with_entity_type(text(kind))
            .with_match_type(*match_type)
            .with_match(name.map(text))
    };
    DescribeClientQuotasRequest::default()
        .with_components(filter.iter().map(component).collect())
        .with_strict(strict)
}

#[tokio::test]
async fn quotas_are_set_described_removed_and_kept() {
    let world = World::new().await;
    let alice: Parts<'_> = &[("user", Some("alice"))];
    let results = world
        .alter_quotas(vec![
            entry(
                alice,
                &[
                    ("producer_byte_rate", Some(1_024.0)),
                    ("request_percentage", Some(12.5)),
                ],
            ),
            entry(
                &[("client-id", None), ("user", Some("alice"))],
                &[("consumer_byte_rate", Some(7.0))],
            ),
            entry(&[("ip", None)], &[("connection_creation_rate", Some(3.0))]),
        ])
        .await;
    assert_eq!(results, [0, 0, 0].map(|code| (code, String::new())));
    let of_alice = [
        "user=alice client-id=<default> consumer_byte_rate:7",
        "user=alice producer_byte_rate:1024 request_percentage:12.5",
    ];
    assert_eq!(
        world.quotas(&[("user", 0, Some("alice"))], false).await,
        of_alice
    );
    assert_eq!(
        world.quotas(&[("user", 2, None)], true).await,
        of_alice[1..]
    );

    let world = world.restart().await;
    let ips = world.quotas(&[("ip", 1, None)], false).await;
    assert_eq!(ips, ["ip=<default> connection_creation_rate:3"]);
    let remove = &[("producer_byte_rate", None), ("consumer_byte_rate", None)];
    let results = world.alter_quotas(vec![entry(alice, remove)]).await;
    assert_eq!(results, [(0, String::new())]);
    assert_eq!(
        world.quotas(&[("user", 2, None)], true).await,
        ["user=alice request_percentage:12.5"]
    );
    let results = world
        .alter_quotas(vec![entry(alice, &[("request_percentage", None)])])
        .await;
    assert_eq!(results, [(0, String::new())]);
    assert!(world.quotas(&[("user", 2, None)], true).await.is_empty());
}

#[tokio::test]
async fn what_is_wrong_is_refused_and_the_rest_is_done() {
    let world = World::new().await;
    let rate = "producer_byte_rate";
    let results = world
        .alter_quotas(vec![
            entry(&[("user", Some("bad"))], &[(rate, Some(0.0))]),
            entry(&[("user", Some("good"))], &[(rate, Some(5.0))]),
            entry(&[("user", Some("other"))], &[("nonsense", Some(1.0))]),
            entry(&[("user", None)], &[(rate, Some(1.0)), (rate, None)]),
            entry(&[("client-id", Some("twice"))], &[(rate, Some(1.0))]),
            entry(&[("client-id", Some("twice"))], &[(rate, Some(2.0))]),
            entry(&[], &[(rate, Some(1.0))]),
        ])
        .await;
    let expected = [
        (
            INVALID_REQUEST,
            "Quota producer_byte_rate must be greater than 0",
        ),
        (0, ""),
        (INVALID_REQUEST, "Invalid configuration key nonsense"),
        (INVALID_REQUEST, "Duplicate quota key producer_byte_rate"),
        (INVALID_REQUEST, "Ignoring duplicate entity"),
        (INVALID_REQUEST, "Invalid empty client quota entity"),
    ];
    assert_eq!(
        results,
        expected.map(|(code, text)| (code, text.to_owned()))
    );
    let all = world.quotas(&[], false).await;
    assert_eq!(all, ["user=good producer_byte_rate:5"]);

    let validate = AlterClientQuotasRequest::default()
        .with_entries(vec![entry(&[("user", None)], &[(rate, Some(1.0))])])
        .with_validate_only(true);
    assert_eq!(
        world.alter_quotas_with(validate).await,
        [(0, String::new())]
    );
    assert_eq!(world.quotas(&[], false).await, all, "only checked");
}

#[tokio::test]
async fn a_filter_that_is_none_is_refused() {
    let world = World::new().await;
    for (filter, code) in [
        (("group", 2, None), UNSUPPORTED_VERSION),
        (("user", 0, None), INVALID_REQUEST),
        (("user", 9, None), INVALID_REQUEST),
    ] {
        let response = world.ask(1, &describe(&[filter], false)).await;
        assert_eq!((response.error_code, response.entries), (code, None));
        assert!(response.error_message.is_some());
    }
}
