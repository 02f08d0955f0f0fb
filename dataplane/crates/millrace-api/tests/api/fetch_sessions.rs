//! Clients that say once what they fetch (KIP-227).

use kafka_protocol::{
    error::ResponseError as Code,
    messages::{FetchRequest, FetchResponse, TopicName, fetch_request},
};
use metrics_exporter_prometheus::PrometheusBuilder;

use crate::{
    calls::{NAMED_FETCH, batch, fetch_request, topic_name, values},
    world::World,
};

/// The partitions of an answer, with how many records each has.
fn told(response: &FetchResponse) -> Vec<(i32, usize)> {
    let partitions = response.responses.iter();
    let partitions = partitions.flat_map(|topic| &topic.partitions);
    partitions
        .map(|partition| (partition.partition_index, values(partition).len()))
        .collect()
}

fn go_on(id: i32, epoch: i32) -> FetchRequest {
    FetchRequest::default()
        .with_session_id(id)
        .with_session_epoch(epoch)
        .with_max_bytes(50 << 20)
        .with_min_bytes(1)
}

#[tokio::test]
async fn a_session_is_answered_with_what_is_new() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let shown = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let world = World::new().await;
    world.create("t", 3, &[]).await;
    let start = fetch_request("t", &[(0, 0), (1, 0), (2, 0)]).with_session_epoch(0);
    let started = world.ask(NAMED_FETCH, &start).await;
    let id = started.session_id;
    assert!(started.error_code == 0 && id > 0);
    assert_eq!(told(&started), [(0, 0), (1, 0), (2, 0)]);
    let nothing = world.ask(NAMED_FETCH, &go_on(id, 1)).await;
    assert_eq!((nothing.session_id, told(&nothing)), (id, vec![]));

    world.produce("t", 1, batch(&["x"])).await;
    let one = world.ask(NAMED_FETCH, &go_on(id, 2)).await;
    assert_eq!(told(&one), [(1, 1)]);
    // It goes on behind what it was given, and forgets another partition.
    let mut further = fetch_request("t", &[(1, 1)])
        .with_session_id(id)
        .with_session_epoch(3);
    let forgotten = fetch_request::ForgottenTopic::default()
        .with_topic(topic_name("t"))
        .with_partitions(vec![2]);
    further.forgotten_topics_data = vec![forgotten];
    let nothing = world.ask(NAMED_FETCH, &further).await;
    assert_eq!((nothing.session_id, told(&nothing)), (id, vec![]));
    for partition in [0, 1, 2] {
        world.produce("t", partition, batch(&["y", "z"])).await;
    }
    let two = world.ask(NAMED_FETCH, &go_on(id, 4)).await;
    assert_eq!(told(&two), [(0, 2), (1, 2)]);
    let text = shown.render();
    for line in [
        "millrace_fetch_sessions 1",
        "millrace_fetch_session_partitions 2",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
    }

    let again = world.ask(NAMED_FETCH, &go_on(id, 4)).await;
    let refused = (again.error_code, again.session_id);
    assert_eq!(refused, (Code::InvalidFetchSessionEpoch.code(), 0));
    let end = start.with_session_epoch(-1).with_session_id(id);
    assert_eq!(world.ask(NAMED_FETCH, &end).await.session_id, 0);
    let unknown = world.ask(NAMED_FETCH, &go_on(id, 5)).await;
    assert_eq!(unknown.error_code, Code::FetchSessionIdNotFound.code());
}

#[tokio::test]
async fn errors_are_told_until_they_are_gone() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let id = world.logs.topics()[0].id.0;
    let by_id = |partitions: &[(i32, i64)]| {
        let mut request = fetch_request("", partitions).with_session_epoch(0);
        request.topics[0].topic_id = id;
        request.topics[0].topic = TopicName::default();
        request
    };
    let started = world.ask(18, &by_id(&[(0, 0), (7, 0)])).await;
    let session = started.session_id;
    assert!(session > 0);
    for epoch in [1, 2] {
        let again = world.ask(18, &go_on(session, epoch)).await;
        assert_eq!(again.responses.len(), 1);
        let partitions = &again.responses[0].partitions;
        assert_eq!(
            (partitions[0].partition_index, partitions[0].error_code),
            (7, Code::UnknownTopicOrPartition.code())
        );
    }
    let by_name = world.ask(NAMED_FETCH, &go_on(session, 3)).await;
    assert_eq!(by_name.error_code, Code::FetchSessionTopicIdError.code());
}

/// Where an answer has no room for all, each partition gets its turn.
#[tokio::test]
async fn partitions_take_turns() {
    let world = World::new().await;
    world.create("t", 3, &[]).await;
    for partition in 0..3 {
        world.produce("t", partition, batch(&["x"])).await;
    }
    let size = batch(&["x"]).len();
    let bytes_max = i32::try_from(size).expect("small");
    let start = fetch_request("t", &[(0, 0), (1, 0), (2, 0)])
        .with_session_epoch(0)
        .with_max_bytes(bytes_max);
    let started = world.ask(NAMED_FETCH, &start).await;
    assert_eq!(told(&started), [(0, 1), (1, 0), (2, 0)]);
    // The client does not ask for more of the first, and still all come.
    let mut served = Vec::new();
    for epoch in 1..=3 {
        let request = go_on(started.session_id, epoch).with_max_bytes(bytes_max);
        served.extend(told(&world.ask(NAMED_FETCH, &request).await));
    }
    served.sort_unstable();
    assert_eq!(served, [(0, 1), (1, 1), (2, 1)]);
}
