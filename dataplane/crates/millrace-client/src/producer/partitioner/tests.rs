use millrace_time::SeededRandom;
use proptest::prelude::*;

use super::*;

const BATCH: usize = 1_000;

fn queues(available: &[bool]) -> Vec<Arc<PartitionQueue>> {
    let queue = |(index, available): (usize, &bool)| {
        let queue = PartitionQueue::new("t".into(), index);
        queue.set_available(*available);
        Arc::new(queue)
    };
    available.iter().enumerate().map(queue).collect()
}

/// Vectors of Apache Kafka's own test of its hash.
#[test]
fn murmur2_equals_javas() {
    let cases: [(&[u8], i32); 6] = [
        (b"21", -973_932_308),
        (b"foobar", -790_332_482),
        (b"a-little-bit-long-string", -985_981_536),
        (b"a-little-bit-longer-string", -1_486_304_829),
        (
            b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
            -58_897_971,
        ),
        (b"abc", 479_470_107),
    ];
    for (key, hash) in cases {
        assert_eq!(
            murmur2(key) as i32,
            hash,
            "{}",
            String::from_utf8_lossy(key)
        );
        let java = (hash & 0x7fff_ffff) % 7;
        assert_eq!(partition_for_key(key, 7), java);
    }
}

proptest! {
    /// Another way to write the same hash, byte by byte as Java's source does.
    #[test]
    fn murmur2_is_the_same_for_every_length(key in prop::collection::vec(any::<u8>(), 0..70)) {
        let m = 0x5bd1_e995_u32;
        let mut hash = 0x9747_b28c_u32 ^ key.len() as u32;
        let words = key.len() / 4;
        for word in 0..words {
            let at = |offset: usize| u32::from(key[word * 4 + offset]) << (8 * offset);
            let mut k = at(0).wrapping_add(at(1)).wrapping_add(at(2)).wrapping_add(at(3));
            k = k.wrapping_mul(m);
            k ^= k >> 24;
            k = k.wrapping_mul(m);
            hash = hash.wrapping_mul(m);
            hash ^= k;
        }
        let tail = &key[words * 4..];
        if tail.len() == 3 { hash ^= u32::from(tail[2]) << 16; }
        if tail.len() >= 2 { hash ^= u32::from(tail[1]) << 8; }
        if !tail.is_empty() {
            hash ^= u32::from(tail[0]);
            hash = hash.wrapping_mul(m);
        }
        hash ^= hash >> 13;
        hash = hash.wrapping_mul(m);
        hash ^= hash >> 15;
        prop_assert_eq!(murmur2(&key), hash);
    }

    #[test]
    fn an_unavailable_partition_is_never_chosen_while_another_is_available(
        seed: u64,
        available in prop::collection::vec(any::<bool>(), 1..20),
    ) {
        let queues = queues(&available);
        let topic = TopicView::new("t", &queues);
        let random = SeededRandom::shared(seed);
        let any = available.contains(&true);
        for how in [Partitioning::UniformSticky, Partitioning::Sticky, Partitioning::RoundRobin] {
            let mut keyless = Keyless::default();
            for _ in 0..50 {
                let chosen = keyless.peek(&how, &topic, &*random);
                prop_assert!(chosen < available.len());
                prop_assert!(available[chosen] || !any, "{how:?} chose {chosen}");
                keyless.appended(&how, chosen, BATCH, true, BATCH);
                keyless.batch_closed(&how, &topic, &*random, BATCH);
            }
        }
    }

    #[test]
    fn uniform_sticky_spreads_bytes_evenly_whatever_the_records_are(
        seed: u64,
        sizes in prop::collection::vec(1_usize..BATCH / 2, 10..100),
    ) {
        let queues = queues(&[true; 4]);
        let topic = TopicView::new("t", &queues);
        let random = SeededRandom::shared(seed);
        let how = Partitioning::UniformSticky;
        let (mut keyless, mut bytes, mut open) = (Keyless::default(), [0_usize; 4], [0_usize; 4]);
        for size in sizes.iter().cycle().take(40_000) {
            let mut at = keyless.peek(&how, &topic, &*random);
            if open[at] + size > BATCH {
                open[at] = 0;
                keyless.batch_closed(&how, &topic, &*random, BATCH);
                at = keyless.peek(&how, &topic, &*random);
                if open[at] + size > BATCH {
                    open[at] = 0;
                }
            }
            open[at] += size;
            bytes[at] += size;
            keyless.appended(&how, at, *size, open[at] >= BATCH, BATCH);
        }
        let total: usize = bytes.iter().sum();
        if total / BATCH > 2_000 {
            for part in bytes {
                let share = part as f64 / total as f64;
                prop_assert!((share - 0.25).abs() < 0.05, "{bytes:?}");
            }
        }
    }
}

#[test]
fn sticky_stays_until_the_batch_closes_and_then_leaves() {
    let queues = queues(&[true; 3]);
    let topic = TopicView::new("t", &queues);
    let random = SeededRandom::shared(1);
    let how = Partitioning::Sticky;
    let mut keyless = Keyless::default();
    for _ in 0..20 {
        let chosen = keyless.peek(&how, &topic, &*random);
        for _ in 0..10 {
            keyless.appended(&how, chosen, 5 * BATCH, false, BATCH);
            assert_eq!(keyless.peek(&how, &topic, &*random), chosen);
        }
        assert!(keyless.batch_closed(&how, &topic, &*random, BATCH));
        assert_ne!(keyless.peek(&how, &topic, &*random), chosen);
    }
}

#[test]
fn uniform_sticky_leaves_after_a_batch_of_bytes_once_the_batch_is_full() {
    let queues = queues(&[true; 100]);
    let topic = TopicView::new("t", &queues);
    let random = SeededRandom::shared(1);
    let how = Partitioning::UniformSticky;
    let mut keyless = Keyless::default();
    let first = keyless.peek(&how, &topic, &*random);
    keyless.appended(&how, first, BATCH, false, BATCH);
    assert_eq!(
        keyless.peek(&how, &topic, &*random),
        first,
        "the batch has room"
    );
    keyless.appended(&how, first, BATCH, false, BATCH);
    let second = keyless.peek(&how, &topic, &*random);
    assert_ne!(
        second, first,
        "twice the bytes are enough whether it has room or not"
    );
    keyless.appended(&how, second, BATCH, true, BATCH);
    assert_ne!(keyless.peek(&how, &topic, &*random), second);
}

#[test]
fn round_robin_takes_every_available_partition_in_turn() {
    let queues = queues(&[true, false, true, true]);
    let topic = TopicView::new("t", &queues);
    let random = SeededRandom::shared(1);
    let mut keyless = Keyless::default();
    let mut next = || {
        let chosen = keyless.peek(&Partitioning::RoundRobin, &topic, &*random);
        keyless.appended(&Partitioning::RoundRobin, chosen, 1, false, BATCH);
        chosen
    };
    let turns: Vec<_> = (0..7).map(|_| next()).collect();
    assert_eq!(turns, [0, 2, 3, 0, 2, 3, 0]);
}

#[test]
fn a_partition_with_a_long_queue_gets_less() {
    let queues = queues(&[true; 3]);
    queues[0].set_queued(8);
    queues[1].set_queued(3);
    let topic = TopicView::new("t", &queues);
    let random = SeededRandom::shared(3);
    let mut chosen = [0_u32; 3];
    for _ in 0..16_000 {
        chosen[random_by_load(&topic, &*random)] += 1;
    }
    // Weights 1, 6 and 9 of 16.
    let expected = [1_000.0, 6_000.0, 9_000.0];
    for (count, expected) in chosen.into_iter().zip(expected) {
        assert!((f64::from(count) - expected).abs() < 300.0, "{chosen:?}");
    }
}
