use millrace_objects::{BlockRef, ObjectKey};

use super::*;
use millrace_model::ObjectId;

fn state() -> State {
    let metrics = Arc::new(Metrics::new());
    State::new(Eviction::Watch, 0, Budget::new(1 << 20), metrics)
}

/// A stretch of blocks of one offset each, from `from` on.
fn located(stream: StreamId, from: Offset, blocks: u64) -> Vec<Located> {
    let object = ObjectId(stream.get() + 1);
    let key = ObjectKey::of("c", object);
    let of = |from: Offset| {
        let position = from * 1_024;
        let block = BlockRef {
            stream,
            start: from,
            end: from + 1,
            position,
            size: 1_024,
            entries: 1,
        };
        let (id, key) = (BlockId { object, position }, key.clone());
        Located {
            from,
            to: from + 1,
            place: Some(Place { id, key, block }),
        }
    };
    (from..from + blocks).map(of).collect()
}

/// What the block lists of all readers take of memory, with what they have reserved, in bytes.
fn blocks_bytes(state: &State) -> usize {
    let readers = state.readers.values();
    readers
        .map(|reader| reader.blocks.capacity())
        .sum::<usize>()
        * size_of::<Watched>()
}

#[test]
fn the_block_lists_of_ten_thousand_readers_are_small() {
    let mut state = state();
    for nth in 0..READERS_MAX as u64 + 10 {
        let now = Duration::from_millis(nth);
        let stream = StreamId(nth);
        let reader = state.enter((stream, 0), 1_000, 1_024, now);
        let found = located(stream, 0, READER_BLOCKS_MAX as u64);
        state.extend_blocks(reader, 0, found);
        assert_eq!(state.readers[&reader].blocks.len(), READER_BLOCKS_MAX);
        state.leave(reader, now);
        assert!(state.readers[&reader].blocks.len() >= READER_BLOCKS_AHEAD_MIN);
    }
    assert_eq!(state.readers(), READERS_MAX);
    let bytes = blocks_bytes(&state);
    assert!(bytes <= 20 << 20, "{bytes}");
}

#[test]
fn idle_readers_go_although_one_before_them_reads() {
    let mut state = state();
    let at = Duration::from_secs;
    let long = state.enter((StreamId(1), 0), 10, 1, at(0));
    for nth in 2..5 {
        let short = state.enter((StreamId(nth), 0), 10, 1, at(nth));
        state.leave(short, at(nth));
    }
    state.expire(IDLE + at(3));
    assert_eq!(state.readers(), 2, "those of the seconds 2 and 3 have gone");
    state.expire(IDLE + at(4));
    assert_eq!(state.readers(), 1, "one still reads");
    state.leave(long, IDLE + at(5));
    state.expire(IDLE + at(6));
    assert_eq!(state.readers(), 1, "its minute begins when it has read");
    state.expire(IDLE + IDLE + at(5));
    assert_eq!(state.readers(), 0);
}
