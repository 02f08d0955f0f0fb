use uuid::Uuid;

use super::*;

fn key(group: &str, member: &str) -> SessionKey {
    SessionKey {
        group: group.into(),
        member: member.into(),
    }
}

fn partition(index: i32) -> (TopicId, i32) {
    (TopicId(Uuid::from_u128(7)), index)
}

#[test]
fn a_session_counts_requests_and_follows_what_is_fetched() {
    let mut sessions = Sessions::new(10);
    let one = key("g", "m");
    assert_eq!(sessions.fetch(&one, 1, [], []), Err(SessionError::NotFound));
    sessions
        .open(one.clone(), 7, [partition(0), partition(1)])
        .expect("room");
    assert_eq!(
        sessions.acknowledge(&one, 0),
        Err(SessionError::InvalidEpoch)
    );
    let fetched = sessions.fetch(&one, 1, [partition(2)], [partition(0)]);
    assert_eq!(fetched, Ok(vec![partition(1), partition(2)]));
    assert_eq!(
        sessions.fetch(&one, 1, [], []),
        Err(SessionError::InvalidEpoch)
    );
    // What is only acknowledged is forgotten by the same request.
    let fetched = sessions.fetch(&one, 2, [partition(3)], [partition(3)]);
    assert_eq!(fetched, Ok(vec![partition(1), partition(2)]));
    assert_eq!(sessions.acknowledge(&one, 3), Ok(()));
    assert_eq!((sessions.len(), sessions.partitions()), (1, 2));
    // Opened again, perhaps over another connection.
    sessions.open(one.clone(), 8, [partition(9)]).expect("room");
    assert_eq!((sessions.len(), sessions.partitions()), (1, 1));
    assert_eq!(sessions.of_connection(7), []);
    assert_eq!(sessions.of_connection(8), [key("g", "m")]);
    assert!(sessions.close(&one) && !sessions.close(&one));
    assert!(sessions.is_empty() && sessions.partitions() == 0);
}

#[test]
fn groups_and_connections_have_several_sessions() {
    let mut sessions = Sessions::new(10);
    for (group, member, connection) in [("g", "a", 1), ("g", "b", 2), ("h", "a", 1)] {
        sessions
            .open(key(group, member), connection, [])
            .expect("room");
    }
    assert_eq!(sessions.of_connection(1), [key("g", "a"), key("h", "a")]);
    sessions.close(&key("g", "a"));
    assert!(sessions.has_group("g"));
    sessions.close(&key("g", "b"));
    assert!(!sessions.has_group("g") && sessions.has_group("h"));
}

#[test]
fn sessions_and_their_partitions_are_bounded() {
    let mut sessions = Sessions::new(2);
    let all = i32::try_from(SESSION_PARTITIONS_MAX).expect("few");
    sessions
        .open(key("g", "a"), 1, (0..all).map(partition))
        .expect("room");
    assert_eq!(
        sessions.open(key("g", "b"), 1, [partition(0)]),
        Err(SessionError::LimitReached)
    );
    sessions.open(key("g", "b"), 1, []).expect("room");
    let grown = sessions.fetch(&key("g", "b"), 1, [partition(0)], []);
    assert_eq!(grown, Err(SessionError::LimitReached));
    assert_eq!(
        sessions.open(key("g", "c"), 1, []),
        Err(SessionError::LimitReached)
    );
    sessions.close(&key("g", "a"));
    assert_eq!(
        sessions.fetch(&key("g", "b"), 1, [partition(0)], []),
        Ok(vec![partition(0)])
    );
    sessions.open(key("g", "c"), 1, []).expect("room");
}

#[test]
fn epochs_go_round() {
    assert_eq!(next_epoch(0), 1);
    assert_eq!(next_epoch(i32::MAX), 1);
}
