use std::ops::Range;

use tokio::sync::oneshot::{Receiver, error::TryRecvError};

use super::*;
use crate::messages::{JoinRequest, Leaving, SyncRequest, Synced};

const SESSION: Duration = Duration::from_secs(10);
const REBALANCE: Duration = Duration::from_secs(60);

/// A group and the time around it. What it wants to be written is written at once.
struct World {
    group: Group,
    now: Now,
    written: Vec<GroupMetadata>,
    names: Range<u32>,
}

type Answer<T> = Receiver<Result<T, GroupError>>;

impl World {
    fn new(config: GroupConfig) -> Self {
        let now = Now {
            at: Duration::from_secs(1),
            ms: 1_000,
        };
        let group = Group::new("g".into(), Arc::new(config), now);
        Self {
            group,
            now,
            written: Vec::new(),
            names: 0..u32::MAX,
        }
    }

    fn plain() -> Self {
        Self::new(GroupConfig::default())
    }

    fn pass(&mut self, time: Duration) {
        self.now.at += time;
        self.now.ms += i64::try_from(time.as_millis()).expect("small");
        if self.group.wake_at().is_some_and(|at| at <= self.now.at) {
            self.group.expire(self.now);
        }
        self.write();
    }

    fn write(&mut self) {
        self.check_memory();
        for Effect { metadata, then } in self.group.take_effects() {
            self.written.push(metadata.clone());
            self.group.stored(metadata, then, Ok(()), self.now);
        }
        self.check_memory();
    }

    /// What is counted as it changes is what there is.
    fn check_memory(&mut self) {
        let counted = self.group.memory;
        self.group.recount();
        assert_eq!(counted, self.group.memory);
    }

    fn join_request(member_id: &str, instance: Option<&str>) -> JoinRequest {
        JoinRequest {
            group_id: "g".into(),
            member_id: member_id.into(),
            instance_id: instance.map(Into::into),
            client_id: "client".into(),
            client_host: "/127.0.0.1".into(),
            session_timeout: SESSION,
            rebalance_timeout: REBALANCE,
            protocol_type: "consumer".into(),
            protocols: protocols(&["range"]),
            requires_known_member_id: false,
            can_skip_assignment: false,
        }
    }

    fn send(&mut self, request: JoinRequest) -> Answer<Joined> {
        let unique = self.names.next().expect("many").to_string();
        let answer = self.group.join(request, &unique, self.now);
        self.write();
        answer
    }

    fn join(&mut self, member_id: &str) -> Answer<Joined> {
        self.send(Self::join_request(member_id, None))
    }

    fn sync(&mut self, joined: &Joined, assignments: &[(&str, &'static str)]) -> Answer<Synced> {
        let assignment = |(id, bytes): &(&str, &'static str)| {
            ((*id).to_owned(), Bytes::from_static(bytes.as_bytes()))
        };
        let request = SyncRequest {
            group_id: "g".into(),
            caller: caller(&joined.member_id, joined.generation),
            protocol_type: Some("consumer".into()),
            protocol: Some(joined.protocol.clone()),
            assignments: assignments.iter().map(assignment).collect(),
        };
        let answer = self.group.sync(request, self.now);
        self.write();
        answer
    }

    /// A stable group of `count` dynamic members; the first leads.
    fn stable(count: usize) -> (Self, Vec<Joined>) {
        let mut world = Self::plain();
        let mut joined = vec![now(world.join("")).expect("alone")];
        for _ in 1..count {
            let newcomer = world.join("");
            let others: Vec<_> = joined
                .iter()
                .map(|j| world.join(&j.member_id.clone()))
                .collect();
            joined = others
                .into_iter()
                .map(|a| now(a).expect("rebalanced"))
                .collect();
            joined.push(now(newcomer).expect("rebalanced"));
        }
        let followers: Vec<_> = joined[1..].iter().map(|j| world.sync(j, &[])).collect();
        now(world.sync(&joined[0], &[])).expect("leader");
        followers
            .into_iter()
            .for_each(|a| drop(now(a).expect("follower")));
        assert_eq!(world.group.state(), GroupState::Stable);
        (world, joined)
    }
}

fn protocols(names: &[&str]) -> Vec<Protocol> {
    let protocol = |name: &&str| Protocol {
        name: (*name).into(),
        metadata: Bytes::copy_from_slice(name.as_bytes()),
    };
    names.iter().map(protocol).collect()
}

fn caller(member_id: &str, generation: i32) -> Caller {
    Caller {
        member_id: member_id.into(),
        instance_id: None,
        generation,
    }
}

#[track_caller]
fn now<T>(mut answer: Answer<T>) -> Result<T, GroupError> {
    answer.try_recv().expect("answered by now")
}

#[track_caller]
fn waits<T: std::fmt::Debug>(answer: &mut Answer<T>) {
    assert_eq!(
        answer.try_recv().expect_err("not answered yet"),
        TryRecvError::Empty
    );
}

#[test]
fn one_member_joins_syncs_and_is_stable() {
    let mut world = World::plain();
    let joined = now(world.join("")).expect("nobody else to wait for");
    assert_eq!((joined.generation, joined.protocol.as_str()), (1, "range"));
    assert_eq!(
        (&joined.leader, joined.members.len()),
        (&joined.member_id, 1)
    );
    assert_eq!(world.group.state(), GroupState::CompletingRebalance);

    let id = joined.member_id.clone();
    let synced = now(world.sync(&joined, &[(&id, "mine"), ("stranger", "x")])).expect("leader");
    assert_eq!(synced.assignment, "mine");
    assert_eq!(world.group.state(), GroupState::Stable);
    let written = world.written.last().expect("the generation");
    assert_eq!((written.generation, written.members.len()), (1, 1));
    assert_eq!(written.members[0].assignment, "mine");
    assert_eq!(world.group.heartbeat(&caller(&id, 1), world.now), Ok(()));
    assert_eq!(
        world.group.heartbeat(&caller(&id, 0), world.now),
        Err(GroupError::IllegalGeneration)
    );
    assert_eq!(
        world.group.heartbeat(&caller("x", 1), world.now),
        Err(GroupError::UnknownMemberId)
    );
}

#[test]
fn assignments_reach_nobody_before_they_are_durable() {
    let mut world = World::plain();
    let joined = now(world.join("")).expect("alone");
    let request = SyncRequest {
        group_id: "g".into(),
        caller: caller(&joined.member_id, 1),
        protocol_type: None,
        protocol: None,
        assignments: vec![(joined.member_id.clone(), Bytes::from_static(b"a"))],
    };
    let mut answer = world.group.sync(request, world.now);
    waits(&mut answer);
    assert_eq!(world.group.state(), GroupState::CompletingRebalance);
    world.write();
    assert_eq!(now(answer).expect("durable").assignment, "a");
}

#[test]
fn an_assignment_that_cannot_be_written_starts_a_rebalance() {
    let mut world = World::plain();
    let joined = now(world.join("")).expect("alone");
    let request = SyncRequest {
        group_id: "g".into(),
        caller: caller(&joined.member_id, 1),
        protocol_type: None,
        protocol: None,
        assignments: Vec::new(),
    };
    let answer = world.group.sync(request, world.now);
    for Effect { metadata, then } in world.group.take_effects() {
        let failed = Err(GroupError::CoordinatorNotAvailable);
        world.group.stored(metadata, then, failed, world.now);
    }
    assert_eq!(now(answer), Err(GroupError::CoordinatorNotAvailable));
    assert_eq!(world.group.state(), GroupState::PreparingRebalance);
    assert_eq!(
        now(world.join(&joined.member_id))
            .expect("again")
            .generation,
        2
    );
}

#[test]
fn a_second_member_makes_the_first_join_again() {
    let (mut world, joined) = World::stable(1);
    let first = joined[0].member_id.clone();
    let mut newcomer = world.join("");
    waits(&mut newcomer);
    assert_eq!(
        world.group.heartbeat(&caller(&first, 1), world.now),
        Err(GroupError::RebalanceInProgress)
    );
    let again = now(world.join(&first)).expect("all have joined");
    let newcomer = now(newcomer).expect("all have joined");
    assert_eq!((again.generation, newcomer.generation), (2, 2));
    assert_eq!((again.members.len(), newcomer.members.len()), (2, 0));
    assert_eq!(newcomer.leader, first);

    let mut follower = world.sync(&newcomer, &[]);
    waits(&mut follower);
    now(world.sync(&again, &[(&newcomer.member_id, "n")])).expect("leader");
    assert_eq!(now(follower).expect("assigned").assignment, "n");
}

#[test]
fn who_does_not_join_again_in_time_is_removed() {
    let (mut world, joined) = World::stable(2);
    let mut newcomer = world.join("");
    let mut first = world.join(&joined[0].member_id);
    // The second member lives (heartbeats) but does not join again.
    for _ in 0..11 {
        world.pass(REBALANCE / 12);
        let second = caller(&joined[1].member_id, joined[1].generation);
        assert_eq!(
            world.group.heartbeat(&second, world.now),
            Err(GroupError::RebalanceInProgress)
        );
    }
    waits(&mut newcomer);
    waits(&mut first);
    world.pass(REBALANCE / 12);
    assert_eq!(now(first).expect("time is up").members.len(), 2);
    assert_eq!(now(newcomer).expect("time is up").members.len(), 0);
    assert_eq!(
        world
            .group
            .heartbeat(&caller(&joined[1].member_id, 3), world.now),
        Err(GroupError::UnknownMemberId)
    );
}

#[test]
fn a_silent_member_loses_its_session_and_the_group_rebalances() {
    let (mut world, joined) = World::stable(2);
    let generation = joined[0].generation;
    world.pass(SESSION / 2);
    assert_eq!(
        world
            .group
            .heartbeat(&caller(&joined[0].member_id, generation), world.now),
        Ok(())
    );
    world.pass(SESSION / 2);
    assert_eq!(world.group.state(), GroupState::PreparingRebalance);
    assert_eq!(
        now(world.join(&joined[0].member_id))
            .expect("alone")
            .members
            .len(),
        1
    );
}

#[test]
fn a_group_whose_members_all_vanish_becomes_empty_and_says_so_in_the_log() {
    let (mut world, _) = World::stable(2);
    world.pass(SESSION);
    assert_eq!(world.group.state(), GroupState::Empty);
    let written = world.written.last().expect("the empty generation");
    assert_eq!((written.generation, written.members.len()), (3, 0));
    assert_eq!((&written.protocol, &written.leader), (&None, &None));
}

#[test]
fn members_that_wait_for_the_rebalance_do_not_expire() {
    let (mut world, joined) = World::stable(2);
    let mut first = world.join(&joined[0].member_id);
    let second = caller(&joined[1].member_id, joined[1].generation);
    for _ in 0..5 {
        world.pass(SESSION / 2);
        drop(world.group.heartbeat(&second, world.now));
    }
    waits(&mut first);
    drop(world.join(&joined[1].member_id));
    now(first).expect("joined");
}

#[test]
fn a_new_member_whose_connection_is_gone_expires_after_five_minutes() {
    let (mut world, joined) = World::stable(1);
    let mut request = World::join_request("", None);
    request.rebalance_timeout = Duration::from_secs(3_600);
    drop(world.send(request));
    let first = caller(&joined[0].member_id, 1);
    for _ in 0..60 {
        world.pass(Duration::from_secs(5));
        drop(world.group.heartbeat(&first, world.now));
    }
    assert_eq!(
        now(world.join(&joined[0].member_id))
            .expect("alone")
            .members
            .len(),
        1
    );
}

#[test]
fn members_that_never_sync_are_given_up() {
    let mut world = World::plain();
    let first = now(world.join("")).expect("alone");
    let second = world.join("");
    let first = now(world.join(&first.member_id)).expect("both");
    let second = now(second).expect("both");
    let mut waiting = world.sync(&second, &[]);
    // The leader heartbeats but never brings the assignment.
    for _ in 0..12 {
        drop(
            world
                .group
                .heartbeat(&caller(&first.member_id, 2), world.now),
        );
        world.pass(REBALANCE / 12);
    }
    assert_eq!(waiting.try_recv(), Ok(Err(GroupError::RebalanceInProgress)));
    let again = now(world.join(&second.member_id)).expect("the leader is gone");
    assert_eq!((again.members.len(), &again.leader), (1, &second.member_id));
}

#[test]
fn an_id_is_required_first_where_the_client_understands_it() {
    let mut world = World::plain();
    let mut request = World::join_request("", None);
    request.requires_known_member_id = true;
    let Err(GroupError::MemberIdRequired(id)) = now(world.send(request)) else {
        panic!("an id first")
    };
    assert!(id.starts_with("client-"));
    assert!(!world.group.is_unused(), "the id is kept for the member");
    assert_eq!(now(world.join(&id)).expect("known").member_id, id);
}

#[test]
fn a_pending_id_is_waited_for_and_then_forgotten() {
    let (mut world, joined) = World::stable(1);
    let mut request = World::join_request("", None);
    request.requires_known_member_id = true;
    let Err(GroupError::MemberIdRequired(id)) = now(world.send(request.clone())) else {
        panic!("an id first")
    };
    // A leader that joins again waits for the pending member.
    let mut first = world.join(&joined[0].member_id);
    waits(&mut first);
    world.pass(SESSION);
    assert_eq!(now(first).expect("nobody is pending").members.len(), 1);
    assert_eq!(now(world.join(&id)), Err(GroupError::UnknownMemberId));
}

#[test]
fn protocols_are_agreed_by_vote_among_those_that_all_offer() {
    let mut world = World::plain();
    let with = |names: &[&str], id: &str| JoinRequest {
        protocols: protocols(names),
        ..World::join_request(id, None)
    };
    let first = now(world.send(with(&["sticky", "range"], ""))).expect("alone");
    let second = world.send(with(&["range", "sticky", "own"], ""));
    let third = world.send(with(&["range", "sticky"], ""));
    let first = now(world.send(with(&["sticky", "range"], &first.member_id))).expect("all");
    assert_eq!(first.protocol, "range");
    assert_eq!(first.members[0].metadata, "range");
    drop((second, third));
    let stranger = world.send(with(&["own"], ""));
    assert_eq!(now(stranger), Err(GroupError::InconsistentGroupProtocol));
    let mut connect = World::join_request("", None);
    connect.protocol_type = "connect".into();
    assert_eq!(
        now(world.send(connect)),
        Err(GroupError::InconsistentGroupProtocol)
    );
    let mut empty = World::plain();
    assert_eq!(
        now(empty.send(with(&[], ""))),
        Err(GroupError::InconsistentGroupProtocol)
    );
}

#[test]
fn a_follower_that_joins_again_unchanged_moves_nobody_but_a_leader_does() {
    let (mut world, joined) = World::stable(2);
    let again = now(world.join(&joined[1].member_id)).expect("at once");
    assert_eq!(again.generation, joined[1].generation);
    assert_eq!(world.group.state(), GroupState::Stable);
    let mut leader = world.join(&joined[0].member_id);
    waits(&mut leader);
    assert_eq!(world.group.state(), GroupState::PreparingRebalance);
}

#[test]
fn who_missed_the_answer_to_its_join_is_told_again() {
    let mut world = World::plain();
    let joined = now(world.join("")).expect("alone");
    assert_eq!(
        now(world.join(&joined.member_id)).expect("the same"),
        joined
    );
    assert_eq!(world.group.state(), GroupState::CompletingRebalance);
}

#[test]
fn leaving_rebalances_and_the_last_one_empties_the_group() {
    let (mut world, joined) = World::stable(2);
    let leaving = |joined: &Joined| Leaving {
        member_id: joined.member_id.clone(),
        instance_id: None,
    };
    let stranger = Leaving {
        member_id: "x".into(),
        instance_id: None,
    };
    let left = world
        .group
        .leave(&[leaving(&joined[0]), stranger], world.now);
    assert_eq!(left, Ok(vec![Ok(()), Err(GroupError::UnknownMemberId)]));
    assert_eq!(world.group.state(), GroupState::PreparingRebalance);
    assert_eq!(
        world.group.leave(&[leaving(&joined[1])], world.now),
        Ok(vec![Ok(())])
    );
    assert_eq!(world.group.state(), GroupState::Empty);
}

#[test]
fn a_member_that_leaves_while_it_waits_is_answered() {
    let (mut world, joined) = World::stable(2);
    let newcomer = world.join("");
    let first = world.join(&joined[0].member_id);
    let left = Leaving {
        member_id: joined[0].member_id.clone(),
        instance_id: None,
    };
    assert_eq!(world.group.leave(&[left], world.now), Ok(vec![Ok(())]));
    assert_eq!(now(first), Err(GroupError::UnknownMemberId));
    drop(newcomer);
}

fn stable_static(can_skip: bool) -> (World, Joined) {
    let mut world = World::plain();
    let mut request = World::join_request("", Some("s1"));
    request.can_skip_assignment = can_skip;
    let joined = now(world.send(request)).expect("alone");
    assert!(joined.member_id.starts_with("s1-"));
    let id = joined.member_id.clone();
    let sync = SyncRequest {
        group_id: "g".into(),
        caller: Caller {
            member_id: id.clone(),
            instance_id: Some("s1".into()),
            generation: 1,
        },
        protocol_type: None,
        protocol: None,
        assignments: vec![(id, Bytes::from_static(b"mine"))],
    };
    let synced = world.group.sync(sync, world.now);
    world.write();
    now(synced).expect("stable");
    (world, joined)
}

#[test]
fn a_static_member_comes_back_without_a_rebalance() {
    for can_skip in [false, true] {
        let (mut world, before) = stable_static(can_skip);
        let mut request = World::join_request("", Some("s1"));
        request.can_skip_assignment = can_skip;
        let after = now(world.send(request)).expect("at once");
        assert_ne!(after.member_id, before.member_id);
        assert_eq!(
            (after.generation, world.group.state()),
            (1, GroupState::Stable)
        );
        assert_eq!(after.skip_assignment, can_skip);
        // An older client must not believe that it leads, or it would assign again.
        let leader = if can_skip {
            &after.member_id
        } else {
            &before.member_id
        };
        assert_eq!(&after.leader, leader);
        assert_eq!(
            world.written.last().expect("durable").members[0].member_id,
            after.member_id
        );
        let sync = |member_id: &str| SyncRequest {
            group_id: "g".into(),
            caller: Caller {
                member_id: member_id.into(),
                instance_id: Some("s1".into()),
                generation: 1,
            },
            protocol_type: None,
            protocol: None,
            assignments: Vec::new(),
        };
        let fenced = world.group.sync(sync(&before.member_id), world.now);
        assert_eq!(now(fenced), Err(GroupError::FencedInstanceId));
        let synced = world.group.sync(sync(&after.member_id), world.now);
        assert_eq!(now(synced).expect("its old assignment").assignment, "mine");
    }
}

#[test]
fn a_static_member_with_a_new_subscription_rebalances() {
    let (mut world, before) = stable_static(true);
    let mut request = World::join_request("", Some("s1"));
    request.protocols = protocols(&["range", "sticky"]);
    request.protocols.reverse();
    let after = now(world.send(request)).expect("alone");
    assert_eq!((after.generation, after.protocol.as_str()), (2, "sticky"));
    assert_ne!(after.member_id, before.member_id);
}

#[test]
fn two_static_members_of_one_name_fence_each_other() {
    let (mut world, _) = World::stable(1);
    let mut first = world.send(World::join_request("", Some("s1")));
    let mut second = world.send(World::join_request("", Some("s1")));
    assert_eq!(first.try_recv(), Ok(Err(GroupError::FencedInstanceId)));
    waits(&mut second);
    let wrong = world.send(World::join_request("s1-wrong", Some("s1")));
    assert_eq!(now(wrong), Err(GroupError::FencedInstanceId));
}

#[test]
fn an_absent_static_member_keeps_its_place_until_its_session_ends() {
    let (mut world, _) = stable_static(true);
    let mut newcomer = world.join("");
    waits(&mut newcomer);
    // The static member is away. Its session ends long before the rebalance must.
    world.pass(SESSION);
    let newcomer = now(newcomer).expect("alone now");
    assert_eq!(newcomer.leader, newcomer.member_id);
}

#[test]
fn a_static_member_leaves_by_its_name_alone() {
    let (mut world, _) = stable_static(true);
    let by_name = Leaving {
        member_id: String::new(),
        instance_id: Some("s1".into()),
    };
    let unknown = Leaving {
        member_id: String::new(),
        instance_id: Some("s2".into()),
    };
    let left = world.group.leave(&[unknown, by_name], world.now);
    assert_eq!(left, Ok(vec![Err(GroupError::UnknownMemberId), Ok(())]));
    assert_eq!(world.group.state(), GroupState::Empty);
}

#[test]
fn the_first_rebalance_waits_for_more_members_but_not_for_ever() {
    let delay = Duration::from_secs(3);
    let mut world = World::new(GroupConfig {
        initial_rebalance_delay: delay,
        ..GroupConfig::default()
    });
    let mut first = world.join("");
    world.pass(delay / 2);
    let mut second = world.join("");
    world.pass(delay / 2);
    waits(&mut first);
    world.pass(delay);
    assert_eq!(now(first).expect("the delay is over").members.len(), 2);
    assert_eq!(
        second.try_recv().expect("over").expect("joined").generation,
        1
    );

    let mut world = World::new(GroupConfig {
        initial_rebalance_delay: delay,
        ..GroupConfig::default()
    });
    let mut request = World::join_request("", None);
    request.rebalance_timeout = delay * 2;
    let mut first = world.send(request.clone());
    for _ in 0..2 {
        waits(&mut first);
        drop(world.send(request.clone()));
        world.pass(delay);
    }
    now(first).expect("the rebalance timeout bounds the wait");
}

#[test]
fn the_group_has_a_largest_size() {
    let mut world = World::new(GroupConfig {
        group_size_max: 1,
        ..GroupConfig::default()
    });
    let first = now(world.join("")).expect("room");
    assert_eq!(now(world.join("")), Err(GroupError::GroupMaxSizeReached));
    now(world.join(&first.member_id)).expect("a member");
    let mut request = World::join_request("", None);
    request.protocols[0].metadata =
        Bytes::from(vec![0; crate::config::MEMBER_METADATA_BYTES_MAX + 1]);
    assert_eq!(
        now(World::plain().send(request)),
        Err(GroupError::MetadataTooLarge)
    );
}

#[test]
fn commits_are_validated_by_member_and_generation() {
    let mut world = World::plain();
    let now_is = world.now;
    assert_eq!(
        world.group.check_commit(&caller("", -1), now_is),
        Ok(()),
        "an empty group"
    );
    let joined = now(world.join("")).expect("alone");
    let id = joined.member_id.clone();
    assert_eq!(
        world.group.check_commit(&caller(&id, 1), now_is),
        Err(GroupError::RebalanceInProgress)
    );
    now(world.sync(&joined, &[])).expect("stable");
    assert_eq!(world.group.check_commit(&caller(&id, 1), now_is), Ok(()));
    assert_eq!(
        world.group.check_commit(&caller(&id, 7), now_is),
        Err(GroupError::IllegalGeneration)
    );
    assert_eq!(
        world.group.check_commit(&caller("x", 1), now_is),
        Err(GroupError::UnknownMemberId)
    );
    assert_eq!(
        world.group.check_commit(&caller("", -1), now_is),
        Err(GroupError::UnknownMemberId)
    );
}

fn committed(topic: &str, commit_ms: i64) -> (TopicPartition, CommittedOffset) {
    let topic = millrace_model::TopicName::new(topic).expect("legal");
    let committed = CommittedOffset {
        offset: 5,
        leader_epoch: -1,
        metadata: String::new(),
        commit_ms,
        expire_ms: None,
    };
    (
        TopicPartition {
            topic,
            partition: 0,
        },
        committed,
    )
}

#[test]
fn offsets_expire_by_kafkas_rules() {
    let week = GroupConfig::default().offsets_retention;
    // A group that never had members: by the time of the commit.
    let mut world = World::plain();
    world
        .group
        .restore_offsets([committed("old", 0), committed("new", 5_000)]);
    world.pass(week);
    let expired = world.group.expired(world.now);
    assert_eq!(
        expired.iter().map(|p| p.topic.as_str()).collect::<Vec<_>>(),
        ["old"]
    );

    // An empty group: from when it became empty.
    let (mut world, _) = World::stable(1);
    world.group.restore_offsets([committed("t", 0)]);
    world.pass(week);
    assert_eq!(world.group.state(), GroupState::Empty);
    assert_eq!(world.group.expired(world.now), []);
    world.pass(week);
    assert_eq!(world.group.expired(world.now).len(), 1);

    // A group with consumers: what nobody subscribes to.
    let mut world = World::plain();
    let mut request = World::join_request("", None);
    request.session_timeout = week * 3;
    let subscription = [&[0, 0, 0, 0, 0, 1, 0, 1, b't'][..], &[0, 0, 0, 0]].concat();
    request.protocols[0].metadata = subscription.into();
    let joined = now(world.send(request)).expect("alone");
    now(world.sync(&joined, &[])).expect("stable");
    world
        .group
        .restore_offsets([committed("t", 0), committed("left", 0)]);
    world.pass(week);
    let expired = world.group.expired(world.now);
    assert_eq!(
        expired.iter().map(|p| p.topic.as_str()).collect::<Vec<_>>(),
        ["left"]
    );
}

#[test]
fn a_group_that_was_read_back_goes_on_where_it_was() {
    let (mut world, joined) = World::stable(2);
    world.group.restore_offsets([committed("t", 0)]);
    let metadata = world.written.last().expect("stable").clone();
    let mut restored = World::plain();
    restored.group.restore(metadata, restored.now);
    assert_eq!(restored.group.state(), GroupState::Stable);
    let (id, generation) = (&joined[1].member_id, joined[1].generation);
    assert_eq!(
        restored
            .group
            .heartbeat(&caller(id, generation), restored.now),
        Ok(())
    );
    assert_eq!(
        restored.group.describe().members,
        world.group.describe().members
    );
    // A rebalance starts from it as from any stable group.
    let mut newcomer = restored.join("");
    waits(&mut newcomer);
    restored.pass(SESSION);
    now(newcomer).expect("the old members have not been heard from");
}

#[test]
fn only_a_group_without_members_is_deleted() {
    let (mut world, _) = World::stable(1);
    assert_eq!(
        world.group.begin_delete(world.now),
        Err(GroupError::NonEmptyGroup)
    );
    world.pass(SESSION);
    world.group.restore_offsets([committed("t", 0)]);
    let tombstones = world.group.begin_delete(world.now).expect("empty");
    assert_eq!(tombstones.len(), 2);
    assert_eq!(
        now(world.join("")),
        Err(GroupError::CoordinatorNotAvailable)
    );
}
