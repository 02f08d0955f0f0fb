use std::net::{Ipv4Addr, SocketAddr};

use millrace_time::SeededRandom;
use millrace_wire::{
    FetchedPartition, FetchedTopic, StrBytes,
    messages::{
        TopicName as WireTopic,
        fetch_request::{FetchPartition, FetchTopic, ForgottenTopic},
    },
    service::Identity,
};

use super::*;

const NOW: Duration = Duration::from_secs(1);
const BY_NAME: i16 = 12;
const BY_ID: i16 = 13;

fn sessions() -> FetchSessions {
    FetchSessions::new(SeededRandom::shared(1))
}

fn peer(principal: &str) -> Peer {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    Peer::with_identity(1, address, "L".into(), Identity::known(principal))
}

fn topic() -> WireTopic {
    WireTopic(StrBytes::from_static_str("t"))
}

fn request(id: i32, epoch: i32, partitions: &[i32]) -> FetchRequest {
    let partition = |index: &i32| FetchPartition::default().with_partition(*index);
    let topics = match partitions {
        [] => Vec::new(),
        _ => vec![
            FetchTopic::default()
                .with_topic(topic())
                .with_partitions(partitions.iter().map(partition).collect()),
        ],
    };
    FetchRequest::default()
        .with_session_id(id)
        .with_session_epoch(epoch)
        .with_topics(topics)
}

/// What is answered where all partitions have this high watermark.
fn answer(request: &FetchRequest, high_watermark: i64) -> FetchAnswer {
    let partition = |asked: &FetchPartition| FetchedPartition {
        index: asked.partition,
        high_watermark,
        ..FetchedPartition::default()
    };
    let topics = request.topics.iter().map(|topic| FetchedTopic {
        topic: topic.topic.0.clone(),
        partitions: topic.partitions.iter().map(partition).collect(),
        ..FetchedTopic::default()
    });
    FetchAnswer {
        topics: topics.collect(),
        ..FetchAnswer::default()
    }
}

fn indexes(answer: &FetchAnswer) -> Vec<i32> {
    let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.map(|partition| partition.index).collect()
}

/// Sends a request, and gives what was answered or why not.
fn ask(
    sessions: &FetchSessions,
    peer: &Peer,
    mut request: FetchRequest,
    high_watermark: i64,
) -> Result<(i32, Vec<i32>), ErrorCode> {
    let entered = sessions.enter(BY_NAME, &mut request, peer, NOW)?;
    let mut answer = answer(&request, high_watermark);
    entered.answer(sessions, &mut answer, NOW);
    Ok((answer.session_id, indexes(&answer)))
}

#[test]
fn a_session_answers_what_is_new() {
    let (sessions, alice) = (sessions(), peer("User:alice"));
    let ask = |request, high_watermark| ask(&sessions, &alice, request, high_watermark);
    let (id, told) = ask(request(0, 0, &[0, 1]), 5).expect("started");
    assert_eq!((id > 0, told), (true, vec![0, 1]));
    assert_eq!(ask(request(id, 1, &[]), 5), Ok((id, vec![])));
    assert_eq!(ask(request(id, 2, &[2]), 5), Ok((id, vec![2])));
    assert_eq!(ask(request(id, 3, &[]), 6), Ok((id, vec![0, 1, 2])));
    let forgotten = ForgottenTopic::default()
        .with_topic(topic())
        .with_partitions(vec![0, 1]);
    let forget = request(id, 4, &[]).with_forgotten_topics_data(vec![forgotten.clone()]);
    assert_eq!(ask(forget, 7), Ok((id, vec![2])));
    let last = forgotten.with_partitions(vec![2]);
    let forget = request(id, 5, &[]).with_forgotten_topics_data(vec![last]);
    assert_eq!(
        ask(forget, 8),
        Ok((0, vec![])),
        "nothing is left to fetch in it"
    );
    assert_eq!(
        ask(request(id, 6, &[]), 8),
        Err(ErrorCode::FetchSessionIdNotFound)
    );
}

#[test]
fn a_request_waits_briefly_while_its_client_holds_records_of_other_partitions() {
    let (sessions, alice) = (sessions(), peer("User:alice"));
    let (id, _) = ask(&sessions, &alice, request(0, 0, &[0, 1]), 5).expect("started");
    let waits = |request: FetchRequest| {
        let mut request = request.with_max_wait_ms(500);
        let entered = sessions.enter(BY_NAME, &mut request, &alice, NOW);
        assert!(entered.is_ok(), "{entered:?}");
        request.max_wait_ms
    };
    assert_eq!(waits(request(id, 1, &[])), 500);
    let other = ForgottenTopic::default()
        .with_topic(topic())
        .with_partitions(vec![1]);
    let without = request(id, 2, &[0]).with_forgotten_topics_data(vec![other]);
    assert_eq!(waits(without), 10);
    assert_eq!(waits(request(id, 3, &[0])), 15, "it adds no partition");
    let unknown = ForgottenTopic::default()
        .with_topic(topic())
        .with_partitions(vec![1, 7]);
    let without = request(id, 4, &[]).with_forgotten_topics_data(vec![unknown]);
    assert_eq!(waits(without), 22, "it leaves out nothing that is there");
    assert_eq!(waits(request(id, 5, &[1])), 500);
}

#[test]
fn what_does_not_follow_is_refused() {
    let (sessions, alice) = (sessions(), peer("User:alice"));
    let (id, _) = ask(&sessions, &alice, request(0, 0, &[0]), 5).expect("started");
    let bob = peer("User:bob");
    let ask = |peer, request| ask(&sessions, peer, request, 5).map(|(id, _)| id);
    let not_found = Err(ErrorCode::FetchSessionIdNotFound);
    let out_of_turn = Err(ErrorCode::InvalidFetchSessionEpoch);
    for epoch in [2, -2, i32::MIN] {
        assert_eq!(ask(&alice, request(id, epoch, &[])), out_of_turn);
    }
    assert_eq!(ask(&alice, request(id ^ 1, 1, &[])), not_found);
    assert_eq!(ask(&bob, request(id, 1, &[])), not_found);
    let by_id = sessions.enter(BY_ID, &mut request(id, 1, &[]), &alice, NOW);
    assert_eq!(by_id.err(), Some(ErrorCode::FetchSessionTopicIdError));
    // Others cannot end it; its owner does.
    assert_eq!(ask(&bob, request(id, -1, &[0])), Ok(0));
    assert_eq!(ask(&alice, request(id, 1, &[])), Ok(id));
    assert_eq!(ask(&alice, request(id, -1, &[0])), Ok(0));
    assert_eq!(ask(&alice, request(id, 2, &[])), not_found);
}

#[test]
fn a_request_that_overtakes_another_ends_that_one() {
    let (sessions, alice) = (sessions(), peer("User:alice"));
    let (id, _) = ask(&sessions, &alice, request(0, 0, &[0]), 5).expect("started");
    let mut slow = request(id, 1, &[]);
    let entered = sessions.enter(BY_NAME, &mut slow, &alice, NOW);
    let entered = entered.expect("in the session");
    assert_eq!(entered.id(), id);
    assert_eq!(
        ask(&sessions, &alice, request(id, 2, &[]), 6),
        Ok((id, vec![0]))
    );
    let mut late = answer(&slow, 7);
    entered.answer(&sessions, &mut late, NOW);
    assert_eq!(
        (late.session_id, late.error_code, indexes(&late)),
        (0, ErrorCode::InvalidFetchSessionEpoch.code(), vec![])
    );
}

#[test]
fn old_versions_and_large_requests_have_no_session() {
    let (sessions, alice) = (sessions(), peer("User:alice"));
    let entered = sessions.enter(6, &mut request(0, 0, &[0]), &alice, NOW);
    assert!(matches!(entered, Ok(InSession::None)));
    let most = i32::try_from(SESSION_BYTES_MAX / 257).expect("few");
    let many: Vec<_> = (0..most).collect();
    let (id, told) = ask(&sessions, &alice, request(0, 0, &many), 5).expect("started");
    assert!(id > 0 && told.len() == many.len());
    let grown = ask(&sessions, &alice, request(id, 1, &[most]), 5);
    assert_eq!(grown, Err(ErrorCode::FetchSessionIdNotFound));
    let more: Vec<_> = (0..=most).collect();
    let (id, told) = ask(&sessions, &alice, request(0, 0, &more), 5).expect("served");
    assert_eq!((id, told.len()), (0, more.len()));
    assert_eq!(sessions.slots.lock().len(), 0);
}

#[test]
fn epochs_go_round() {
    assert_eq!(next_epoch(0), 1);
    assert_eq!(next_epoch(i32::MAX), 1);
}
