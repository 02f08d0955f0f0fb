//! A connection that could write endlessly yields to the others of its thread.

use std::{
    io::{self, IoSlice},
    sync::atomic::AtomicU64,
};

use bytes::buf::Limit;
use millrace_budget::Budget;

use super::*;
use crate::{
    config::WRITE_TURN_BYTES,
    connection::{self, Shared},
    metrics::Metrics,
    registry::Registry,
    transport::Transport,
    warnings::Warnings,
};

/// Takes everything at once, as a socket does whose client reads as fast as it is written to.
struct Greedy {
    input: Mutex<BytesMut>,
    /// How often another task had run when so many bytes were written.
    writes: Arc<Mutex<Vec<(u64, usize)>>>,
    others_turns: Arc<AtomicU64>,
}

impl Transport for Greedy {
    async fn readable(&self) -> io::Result<()> {
        if self.input.lock().is_empty() {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    fn try_read(&self, space: &mut Limit<&mut BytesMut>) -> io::Result<usize> {
        let mut input = self.input.lock();
        if input.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = input.len().min(space.remaining_mut());
        space.put_slice(&input.split_to(count));
        Ok(count)
    }

    async fn writable(&self) -> io::Result<()> {
        Ok(())
    }

    fn try_write(&self, segments: &[IoSlice<'_>]) -> io::Result<usize> {
        let written = segments.iter().map(|segment| segment.len()).sum();
        let turn = self.others_turns.load(Ordering::SeqCst);
        self.writes.lock().push((turn, written));
        Ok(written)
    }

    fn try_flush(&self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_large_answer_is_written_in_turns_with_the_others() {
    let (writes, others_turns) = (Arc::<Mutex<Vec<_>>>::default(), Arc::new(AtomicU64::new(0)));
    let clock: SharedClock = ManualClock::shared();
    let shared = Arc::new(Shared {
        config: NetConfig::default(),
        service: Arc::new(TestService {
            probe: Arc::default(),
            clock: clock.clone(),
        }),
        budget: Budget::new(1 << 30),
        timers: Timers::new(clock.clone(), Supervisor::new()),
        clock: clock.clone(),
        metrics: Metrics::new(),
        warnings: Warnings::new(clock.clone()),
    });
    let transport = Greedy {
        input: Mutex::new(BytesMut::from(&frame(BIG, 1)[..])),
        writes: Arc::clone(&writes),
        others_turns: Arc::clone(&others_turns),
    };
    let address = "127.0.0.1:1".parse().expect("an address");
    let peer = Arc::new(Peer::new(1, address, "GREEDY".into()));
    let entry = Registry::new().enter(1, &clock);
    let serving = tokio::spawn(connection::serve(transport, peer, shared, entry));
    let written = || writes.lock().iter().map(|(_, bytes)| bytes).sum::<usize>();
    while written() < BIG_BYTES {
        others_turns.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
    }
    serving.abort();
    let writes = writes.lock();
    for turn in writes.chunk_by(|one, next| one.0 == next.0) {
        let bytes: usize = turn.iter().map(|(_, bytes)| bytes).sum();
        assert!(bytes <= 2 * WRITE_TURN_BYTES, "{bytes} bytes in one turn");
    }
    assert!(writes.len() >= BIG_BYTES / WRITE_TURN_BYTES);
}
use millrace_tasks::Supervisor;
