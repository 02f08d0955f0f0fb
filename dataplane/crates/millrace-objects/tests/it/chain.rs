//! The chain of a metadata backup, over a store that fails on purpose.

use std::time::Duration;

use millrace_model::{NodeEpoch, NodeId, StreamId};
use millrace_objects::{
    ObjectKey, ObjectStorage,
    chain::{
        Chain, ChainOwner, ChainWriter, ClaimError, Draft, ItemKind, PutItemError, ReadItemError,
        Watermark,
    },
};
use millrace_testkit::{BucketFaults, FaultyBucket};

use crate::storage::stack;

fn owner(nonce: u64) -> ChainOwner {
    ChainOwner {
        cluster_id: "c".into(),
        node_id: NodeId(1),
        wal_id: 7,
        generation: NodeEpoch(nonce),
        nonce,
    }
}

fn frames(revision: u64) -> Draft {
    Draft {
        watermarks: vec![Watermark {
            stream: StreamId(revision),
            end: 2 * revision,
        }],
        body: revision.to_be_bytes().repeat(100),
        ..Draft::empty(ItemKind::Frames, revision)
    }
}

async fn claim(chain: &Chain, nonce: u64) -> Result<ChainWriter, ClaimError> {
    chain
        .claim_agreed(&owner(nonce), 0, 5, |_| Ok::<_, ClaimError>(()))
        .await
}

async fn put(writer: &mut ChainWriter, revision: u64) -> Result<(), PutItemError> {
    let item = writer.next_item(9).seal(frames(revision));
    loop {
        match writer.put(&item).await {
            Err(PutItemError::Store(_)) => {}
            settled => return settled,
        }
    }
}

/// What the chain says, from its first item on.
async fn revisions(chain: &Chain) -> Vec<(ItemKind, u64, u64)> {
    let mut found = Vec::new();
    for item in chain.items().await.expect("lists") {
        let item = chain.read(item).await.expect("sound");
        let header = item.header;
        if header.kind == ItemKind::Frames {
            assert_eq!(item.watermarks, frames(header.last_revision).watermarks);
            assert_eq!(item.body, frames(header.last_revision).body);
        }
        found.push((header.kind, header.owner.nonce, header.last_revision));
    }
    found
}

fn chain((storage, faulty): (ObjectStorage, FaultyBucket)) -> (Chain, FaultyBucket) {
    (Chain::new(storage, NodeId(1)), faulty)
}

#[tokio::test(start_paused = true)]
async fn items_follow_each_other_through_failures_and_lost_replies() {
    let (chain, faulty) = chain(stack(3));
    assert_eq!(chain.read_tail().await.expect("answers"), None);
    faulty.set(BucketFaults {
        fail_permille: 300,
        lose_reply_permille: 300,
        conflict_permille: 100,
        repeat_permille: 100,
        stall_permille: 50,
        stall: Duration::from_secs(20),
        ..BucketFaults::default()
    });
    let mut writer = claim(&chain, 1).await.expect("free");
    for revision in 1..=40 {
        put(&mut writer, revision)
            .await
            .expect("nobody else writes");
    }
    faulty.set(BucketFaults::default());
    let expected: Vec<_> = (1..=40)
        .map(|revision| (ItemKind::Frames, 1, revision))
        .collect();
    let found = revisions(&chain).await;
    assert_eq!(found.first(), Some(&(ItemKind::Begin, 1, 0)));
    assert_eq!(&found[1..], &expected[..]);
    let tail = chain.read_tail().await.expect("answers").expect("a chain");
    assert_eq!(
        (tail.first_seq, tail.next_seq, tail.last.last_revision),
        (1, 42, 40)
    );
    assert_eq!(writer.delete_below(30).await.expect("deletes"), 29);
    assert_eq!(chain.items().await.expect("lists").len(), 12);
}

#[tokio::test(start_paused = true)]
async fn of_two_that_believe_they_own_the_chain_the_former_is_fenced_and_overwrites_nothing() {
    for lost in [0, 400] {
        let (chain, faulty) = chain(stack(4));
        let mut former = claim(&chain, 1).await.expect("free");
        put(&mut former, 1).await.expect("its own");
        faulty.set(BucketFaults {
            lose_reply_permille: lost,
            ..BucketFaults::default()
        });
        let mut latter = claim(&chain, 2).await.expect("takes over");
        let refused = put(&mut former, 2).await.expect_err("fenced").to_string();
        assert!(refused.contains("generation 2"), "{refused}");
        put(&mut latter, 2).await.expect("its own");
        put(&mut former, 3).await.expect_err("fenced for good");
        faulty.set(BucketFaults::default());
        let expected = [
            (ItemKind::Begin, 1, 0),
            (ItemKind::Frames, 1, 1),
            (ItemKind::Begin, 2, 0),
            (ItemKind::Frames, 2, 2),
        ];
        assert_eq!(revisions(&chain).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_met_another_looks_again_and_asks_again() {
    let (chain, _) = chain(stack(5));
    let stale = chain.read_tail().await.expect("answers");
    let mut first = claim(&chain, 1).await.expect("free");
    let late = chain.claim(stale.as_ref(), owner(2), 0, 5).await;
    assert!(
        matches!(late, Err(PutItemError::Fenced { seq: 1, .. })),
        "{late:?}"
    );
    put(&mut first, 1).await.expect("still its own");
    let refused = chain
        .claim_agreed(&owner(2), 0, 5, |tail| match tail {
            Some(tail) => Err(ClaimError::Read(ReadItemError::NotFound(tail.next_seq))),
            None => Ok(()),
        })
        .await;
    assert!(
        matches!(refused, Err(ClaimError::Read(ReadItemError::NotFound(3)))),
        "{refused:?}"
    );
    assert_eq!(chain.items().await.expect("lists").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_corrupt_end_is_passed_over_and_its_place_is_not_used_again() {
    let (storage, _) = stack(6);
    let chain = Chain::new(storage.clone(), NodeId(1));
    let mut writer = claim(&chain, 1).await.expect("free");
    put(&mut writer, 1).await.expect("its own");
    let listed = storage.list("meta", None, 10).await.expect("lists");
    // The store kept only the beginning of what another process wrote as item 3.
    let bytes = storage.get_start(&listed[1].key, 60).await.expect("there");
    storage
        .put(&ObjectKey::chain_item(NodeId(1), 3), vec![bytes])
        .await
        .expect("free");
    let tail = chain.read_tail().await.expect("answers").expect("a chain");
    assert_eq!((tail.next_seq, tail.last.seq), (4, 2));
    let mut next = claim(&chain, 2).await.expect("takes over");
    put(&mut next, 2).await.expect("its own");
    let error = chain.read_header(3).await.expect_err("cut off");
    assert!(
        matches!(error, ReadItemError::Corrupt { seq: 3, .. }),
        "{error}"
    );
}
