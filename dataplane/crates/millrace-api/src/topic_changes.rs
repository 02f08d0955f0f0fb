//! Creates, grows and deletes topics: one change after the other, in request order, each to its end
//! even if the client has disconnected, because a topic must not be left half created.
//!
//! A new topic is served once the bucket has the metadata's backup. Where the bucket takes long, the
//! answer waits for that outside of the queue, and so do those of later changes: an outage delays each
//! request once, and not by the number of those before it.

use std::{
    future::ready,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use millrace_tasks::{Supervisor, Task};
use millrace_wire::service::BoxFuture;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::{
    call::{Answer, Outcome, Taken},
    context::Context,
};

/// Changes that may wait. Past it, a connection that asks for one more is not read from until there
/// is room; other connections go on.
const WAITING_MAX: usize = 256;

/// How long later changes wait until a new topic is served, so that a client may send the next request
/// for it without waiting: several times what a bucket takes for a small object.
const SERVED_WAIT: Duration = Duration::from_secs(1);

type Change = BoxFuture<'static, ()>;

/// The queue of changes; the task that works it off ends with the queue.
#[derive(Debug)]
pub(crate) struct TopicChanges {
    queue: mpsc::Sender<Change>,
    /// Answers that wait outside of the queue: while there is one, no change waits inside.
    late: Arc<AtomicUsize>,
}

/// An answer that waits outside of the queue, while it lives.
struct Late(Arc<AtomicUsize>);

impl Late {
    fn new(late: &Arc<AtomicUsize>) -> Self {
        late.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(late))
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl TopicChanges {
    /// An empty queue. Must be called on a tokio runtime.
    pub(crate) fn start(tasks: &Supervisor) -> Self {
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        tasks.spawn(Task::TopicChanges, work_off(waiting));
        Self {
            queue,
            late: Arc::default(),
        }
    }
}

async fn work_off(mut waiting: mpsc::Receiver<Change>) {
    while let Some(change) = waiting.recv().await {
        if AssertUnwindSafe(change).catch_unwind().await.is_err() {
            tracing::error!("a change of topics panicked");
        }
    }
}

/// Takes a change into the queue, behind those of all earlier requests. From what it gives, `rest` makes the
/// answer, for which it may wait beside later changes.
pub(crate) async fn enqueue<F, A>(
    context: &Arc<Context>,
    change: F,
    rest: impl FnOnce(F::Output) -> A + Send + 'static,
) -> Outcome
where
    F: Future<Output: Send> + Send + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    let TopicChanges { queue, late } = &context.topic_changes;
    let (reply, waiting) = oneshot::channel::<(BoxFuture<'static, Answer>, Option<Late>)>();
    let late = Arc::clone(late);
    let change: Change = Box::pin(async move {
        let mut answer: BoxFuture<'static, Answer> = Box::pin(rest(change.await));
        let wait = match late.load(Ordering::Acquire) {
            0 => SERVED_WAIT,
            _ => Duration::ZERO,
        };
        let waiting = match timeout(wait, &mut answer).await {
            Ok(answered) => (Box::pin(ready(answered)) as _, None),
            Err(_) => (answer, Some(Late::new(&late))),
        };
        // The client may be gone.
        drop(reply.send(waiting));
    });
    let queued = queue.send(change).await;
    debug_assert!(queued.is_ok(), "the worker lives as long as the queue");
    Taken::later(async {
        let waiting = waiting.await;
        let (answer, _late) = waiting.expect("a change ends with an answer unless it panics");
        answer.await
    })
}
