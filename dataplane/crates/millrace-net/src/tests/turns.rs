//! A connection that could write endlessly yields to the others of its thread.

use std::{
    io::{self, IoSlice},
    sync::atomic::AtomicU64,
};

use bytes::buf::Limit;
use millrace_budget::Budget;
use millrace_wire::Pace;

use super::*;
use crate::{
    config::WRITE_TURN_BYTES,
    connection::{self, Shared},
    metrics::Metrics,
    outbox::Outbox,
    registry::Registry,
    transport::Transport,
    warnings::Warnings,
    writer::Writer,
};

/// Takes everything at once, as a socket does whose client reads as fast as it is written to.
struct Greedy {
    input: Mutex<BytesMut>,
    /// Which threads have written.
    threads: Arc<Mutex<Vec<String>>>,
    /// How often another task had run when so many bytes were written.
    writes: Arc<Mutex<Vec<(u64, usize)>>>,
    others_turns: Arc<AtomicU64>,
}

impl Transport for Greedy {
    const HALVES_ARE_APART: bool = true;

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
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        self.threads.lock().push(thread);
        Ok(written)
    }

    fn try_flush(&self) -> io::Result<()> {
        Ok(())
    }
}

fn shared(clock: &SharedClock, tasks: Supervisor) -> Arc<Shared> {
    Arc::new(Shared {
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
        tasks,
    })
}

/// Lets everything pass, and remembers it.
#[derive(Debug, Default)]
struct Counted(Mutex<Vec<u64>>);

impl Pace for Counted {
    fn pass(&self, bytes: u64) -> BoxFuture<'_, ()> {
        self.0.lock().push(bytes);
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test]
async fn answers_with_old_data_are_written_in_the_background_at_their_pace() {
    let mut apart = tokio::runtime::Builder::new_multi_thread();
    let apart = apart.worker_threads(1).thread_name("apart").enable_all();
    let apart = apart.build().expect("a runtime");
    let clock: SharedClock = ManualClock::shared();
    let tasks = Supervisor::new().with_background(apart.handle().clone());
    let (pace, threads) = (
        Arc::new(Counted::default()),
        Arc::<Mutex<Vec<String>>>::default(),
    );
    let transport = Arc::new(Greedy {
        input: Mutex::default(),
        threads: Arc::clone(&threads),
        writes: Arc::default(),
        others_turns: Arc::default(),
    });
    let entry = Registry::new().enter(1, &clock);
    let writer = Writer::new(transport, shared(&clock, tasks), Arc::clone(&entry.pulse));
    let mut outbox = Outbox::default();
    outbox.push(response(&[1]));
    writer.flush(&mut outbox).await.expect("written");
    assert!(threads.lock().iter().all(|name| name != "apart"));
    assert!(pace.0.lock().is_empty());
    threads.lock().clear();
    let bytes = 2 * WRITE_TURN_BYTES + 1;
    outbox.push(response(&vec![1; bytes - 4]).in_background(pace.clone()));
    writer.flush(&mut outbox).await.expect("written");
    assert!(threads.lock().iter().all(|name| name == "apart"));
    let turn = WRITE_TURN_BYTES as u64;
    assert_eq!(*pace.0.lock(), [turn, turn, 1]);
    assert_eq!(outbox.bytes(), 0);
    apart.shutdown_background();
}

#[tokio::test]
async fn a_large_answer_is_written_in_turns_with_the_others() {
    let (writes, others_turns) = (Arc::<Mutex<Vec<_>>>::default(), Arc::new(AtomicU64::new(0)));
    let clock: SharedClock = ManualClock::shared();
    let shared = shared(&clock, Supervisor::new());
    let transport = Greedy {
        input: Mutex::new(BytesMut::from(&frame(BIG, 1)[..])),
        threads: Arc::default(),
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
