//! Client quotas: set, described and removed by a client, and kept over a restart.

use std::time::Duration;

use bytes::BytesMut;
use kafka_protocol::messages::{
    AlterClientQuotasRequest, CreateTopicsRequest, DeleteTopicsRequest,
    DescribeClientQuotasRequest, ListGroupsRequest, MetadataRequest,
    alter_client_quotas_request::{EntityData, EntryData, OpData},
    create_topics_request::CreatableTopic,
    delete_topics_request::DeleteTopicState,
    describe_client_quotas_request::ComponentData,
    metadata_request::MetadataRequestTopic,
};
use millrace_record::{BatchBuilder, Compression};
use millrace_security::quota::METERS_OF_ONE_MAX;

use crate::{
    authorization::client,
    calls::{NAMED_PRODUCE, produce_request, topic_name},
    quota::windows,
    world::{Settings, World, answer, frame_of, text},
};

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
    pub(crate) async fn quotas(
        &self,
        filter: &[(&str, i8, Option<&str>)],
        strict: bool,
    ) -> Vec<String> {
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
async fn the_last_name_of_a_type_holds() {
    let world = World::new().await;
    let named = entry(
        &[("user", Some("first")), ("user", Some("last"))],
        &[("producer_byte_rate", Some(5.0))],
    );
    let request = AlterClientQuotasRequest::default().with_entries(vec![named]);
    let told = world.ask(1, &request).await.entries.remove(0);
    let name = told.entity[0].entity_name.clone();
    assert_eq!((told.error_code, told.entity.len()), (0, 1));
    assert_eq!(name.as_deref(), Some("last"));
    assert_eq!(
        world.quotas(&[], false).await,
        ["user=last producer_byte_rate:5"]
    );
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

const THROTTLING_QUOTA_EXCEEDED: i16 = 89;

fn batch_of(bytes: usize) -> BytesMut {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(5, None, Some(&vec![b'x'; bytes]), &[]);
    builder.build()
}

impl World {
    pub(crate) async fn throttle_of_produce(&self, bytes: usize) -> i32 {
        let request = produce_request("t", &[(0, batch_of(bytes))], -1);
        self.ask(NAMED_PRODUCE, &request).await.throttle_time_ms
    }

    async fn set_quota(&self, parts: Parts<'_>, key: &str, value: Option<f64>) {
        let results = self.alter_quotas(vec![entry(parts, &[(key, value)])]).await;
        assert_eq!(results, [(0, String::new())]);
    }
}

/// The client id of all requests is `test`, and the user is anonymous.
#[tokio::test]
async fn a_quota_holds_at_once_survives_a_restart_and_ends_at_once() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    assert_eq!(world.throttle_of_produce(50_000).await, 0);
    let (rate, default) = ("producer_byte_rate", &[("client-id", None)]);
    world.set_quota(default, rate, Some(1_000.0)).await;
    // Ten seconds' worth may be sent at once.
    let told = world.throttle_of_produce(50_000).await;
    assert!((35_000..=41_000).contains(&told), "{told}");
    assert!(
        world.peer.throttle.left(Duration::ZERO).is_some(),
        "not read meanwhile"
    );

    // Something more specific is another quota, whose use begins now.
    let anonymous = &[("user", Some("ANONYMOUS"))];
    world.set_quota(anonymous, rate, Some(100_000_000.0)).await;
    assert_eq!(world.throttle_of_produce(50_000).await, 0);
    world.set_quota(anonymous, rate, None).await;

    let world = world.restart().await;
    let told = world.throttle_of_produce(50_000).await;
    assert!((35_000..=41_000).contains(&told), "{told}");
    let uses = world.service.quota_uses();
    assert_eq!(uses.total, 1);
    let shown = &uses.uses[0];
    assert_eq!(
        (shown.quota, shown.client_id.as_deref()),
        (rate, Some("test"))
    );
    assert!(
        shown.rate > shown.limit && !shown.throttle.is_zero(),
        "{shown:?}"
    );
    world.set_quota(default, rate, None).await;
    assert_eq!(world.throttle_of_produce(50_000).await, 0);
    assert_eq!(world.service.quota_uses().total, 0, "nobody has a quota");
}

#[tokio::test]
async fn work_for_a_client_is_limited_for_every_api() {
    let world = World::new().await;
    let user = &[("user", Some("ANONYMOUS"))];
    // Nothing to speak of: whatever is done is too much, and the wait is a window at most.
    world
        .set_quota(user, "request_percentage", Some(1e-9))
        .await;
    let metadata = world.ask(9, &MetadataRequest::default()).await;
    assert!(
        (1..=1_000).contains(&metadata.throttle_time_ms),
        "{metadata:?}"
    );
    let groups = world.ask(4, &ListGroupsRequest::default()).await;
    assert!((1..=1_000).contains(&groups.throttle_time_ms), "{groups:?}");
    let old = world
        .ask(0, &MetadataRequest::default().with_topics(Some(vec![])))
        .await;
    assert_eq!(old.throttle_time_ms, 0, "the version cannot tell it");
    world.set_quota(user, "request_percentage", None).await;
    let metadata = world.ask(9, &MetadataRequest::default()).await;
    assert_eq!(metadata.throttle_time_ms, 0);
}

/// Otherwise a tenant's quota could keep it out, and nobody could take the quota back.
#[tokio::test]
async fn the_control_plane_has_no_quotas() {
    let world = World::new().await;
    let percentage = "request_percentage";
    for everybody in [&[("user", None)], &[("client-id", None)]] {
        world.set_quota(everybody, percentage, Some(1e-9)).await;
    }
    let throttle_of = async |number, principal| {
        let request = MetadataRequest::default();
        let answer = world.ask_as(&client(number, principal), 9, &request).await;
        answer.throttle_time_ms
    };
    assert_eq!(throttle_of(2, "User:__millrace").await, 0);
    assert!(throttle_of(3, "User:alice").await > 0);
    assert!(throttle_of(4, "User:__millrace_records").await > 0);

    let named = ("user", Some("__millrace"));
    let with_client: Parts<'_> = &[named, ("client-id", Some("admin"))];
    for parts in [&[named], with_client] {
        let set = vec![entry(parts, &[(percentage, Some(1.0))])];
        let (code, message) = world.alter_quotas(set).await.remove(0);
        assert_eq!(code, INVALID_REQUEST);
        assert!(message.contains("the control plane"), "{message}");
        world.set_quota(parts, percentage, None).await;
    }
}

#[tokio::test]
async fn changes_of_topics_are_limited() {
    let world = World::new().await;
    let user = &[("user", None)];
    world
        .set_quota(user, "controller_mutation_rate", Some(0.1))
        .await;
    let create = async |version: i16, name: &str| {
        let topic = CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(12)
            .with_replication_factor(1);
        let request = CreateTopicsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(10_000);
        let answer = world.ask(version, &request).await;
        (answer.topics[0].error_code, answer.throttle_time_ms)
    };
    // Eleven seconds' worth may be created at once; a change is made as long as nothing is owed.
    assert_eq!(create(7, "first").await, (0, 0));
    let (error, told) = create(7, "second").await;
    assert_eq!(error, THROTTLING_QUOTA_EXCEEDED);
    assert!((50_000..=109_000).contains(&told), "{told}");
    // Older clients do not know the error. They are told to wait, and their changes are made.
    let (error, told) = create(5, "third").await;
    assert_eq!(error, 0);
    assert!((150_000..=229_000).contains(&told), "{told}");
    let delete = DeleteTopicsRequest::default()
        .with_topics(vec![
            DeleteTopicState::default().with_name(Some(topic_name("first"))),
        ])
        .with_timeout_ms(10_000);
    let answer = world.ask(6, &delete).await;
    assert_eq!(answer.responses[0].error_code, THROTTLING_QUOTA_EXCEEDED);
    // A topic that is created because a client asked for it counts, and is not refused.
    let topic = MetadataRequestTopic::default().with_name(Some(topic_name("fourth")));
    let asked = MetadataRequest::default()
        .with_topics(Some(vec![topic]))
        .with_allow_auto_topic_creation(true);
    let metadata = world.ask(9, &asked).await;
    assert_eq!(metadata.topics[0].error_code, 0);
    assert!(metadata.throttle_time_ms > 150_000, "{metadata:?}");
    world
        .set_quota(user, "controller_mutation_rate", None)
        .await;
    assert_eq!(world.ask(6, &delete).await.responses[0].error_code, 0);
}

/// Such a connection was not read for as long as the former quota asked for, which may be hours.
#[tokio::test]
async fn whoever_waits_is_read_as_soon_as_a_raised_quota_allows() {
    let world = World::with(Settings {
        quotas: windows(),
        ..Settings::default()
    })
    .await;
    world.create("t", 1, &[]).await;
    // By the service's own clock, which began at an unknown time.
    let end = || world.peer.throttle.end();
    let set = async |parts: Parts<'static>, value: Option<f64>| {
        let quotas = &[("producer_byte_rate", value)];
        let changed = world.alter_quotas(vec![entry(parts, quotas)]).await;
        assert_eq!(changed, [(0, String::new())]);
    };
    let all: Parts<'static> = &[("client-id", None)];
    let produce = async || {
        let mut builder = BatchBuilder::new(Compression::None);
        builder.push(5, None, Some(&vec![b'x'; 100_000]), &[]);
        let request = produce_request("t", &[(0, builder.build())], -1);
        world.ask(NAMED_PRODUCE, &request).await.throttle_time_ms
    };
    set(all, Some(100.0)).await;
    // 100 kB at 100 bytes per second.
    assert!(produce().await > 900_000);
    let first = end();
    set(all, Some(50.0)).await;
    assert_eq!(end(), first, "no wait becomes longer");
    set(all, Some(1_000.0)).await;
    let raised = end();
    assert!(raised > Duration::ZERO && first - raised > Duration::from_secs(700));
    // A more specific quota, of which nothing is used.
    set(&[("user", Some("ANONYMOUS"))], Some(10.0)).await;
    assert_eq!(end(), Duration::ZERO);

    assert!(produce().await > 0);
    set(&[("user", Some("ANONYMOUS"))], None).await;
    assert!(
        end() < raised + Duration::from_secs(60),
        "only the other quota's wait is left"
    );
    set(all, None).await;
    assert_eq!(end(), Duration::ZERO);
    assert_eq!(produce().await, 0);
}

/// One user with many client ids filled the table of meters, and all other clients shared one.
#[tokio::test]
async fn many_client_ids_of_one_user_throttle_nobody_else() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let quota = entry(
        &[("user", None), ("client-id", None)],
        &[("request_percentage", Some(1e-6))],
    );
    assert_eq!(world.alter_quotas(vec![quota]).await, [(0, String::new())]);
    let list_groups = async |peer, client_id: &str| {
        let frame = frame_of(client_id, 4, 1, &ListGroupsRequest::default());
        let sent = world.send_frame_as(peer, frame).await;
        answer::<ListGroupsRequest>(4, sent).await;
    };
    // What is owed takes hours to pay, so that no meter is forgotten meanwhile.
    let measured = || world.service.quota_uses().total;
    let mallory = client(7, "User:mallory");
    for id in 0..METERS_OF_ONE_MAX + 10 {
        list_groups(&mallory, &id.to_string()).await;
    }
    assert_eq!(measured(), METERS_OF_ONE_MAX);
    list_groups(&client(8, "User:alice"), "app").await;
    assert_eq!(measured(), METERS_OF_ONE_MAX + 1, "by itself");
}
