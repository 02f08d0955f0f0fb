//! Creates, grows and deletes topics: one change after the other, in request order, each to its end
//! even if the client has disconnected, because a topic must not be left half created.
//!
//! A new topic is served once the bucket has the metadata's backup. Where the bucket takes long, the
//! answer waits for that outside of the queue, and so do those of later changes: an outage delays each
//! request once, and not by the number of those before it.

use std::{
    future::ready,
    panic::{AssertUnwindSafe, resume_unwind},
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
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};

use crate::{
    call::{Answer, Outcome, Taken},
    context::Context,
};

/// Changes that may wait. Past it, a connection that asks for one more is not read from until there
/// is room; other connections go on.
const WAITING_MAX: usize = 256;

/// Answers that may wait outside of the queue: as many as inside. Past it, the queue waits for one of
/// them, which takes as long as the wait for the backup at most.
const LATE_MAX: usize = 256;

/// How long later changes wait until a new topic is served, so that a client may send the next request
/// for it without waiting: several times what a bucket takes for a small object.
const SERVED_WAIT: Duration = Duration::from_secs(1);

type Change = BoxFuture<'static, ()>;

/// The queue of changes; the task that works it off ends with the queue.
#[derive(Debug)]
pub(crate) struct TopicChanges {
    queue: mpsc::Sender<Change>,
    late: Arc<Late>,
}

/// The answers that wait outside of the queue.
#[derive(Debug)]
struct Late {
    places: Arc<Semaphore>,
    /// Those of them that were not there within [`SERVED_WAIT`]: while there is one, the bucket is taken to
    /// be silent, and no change waits inside. Those that were not waited for prove nothing: they follow each
    /// other without end where there are many changes.
    silent: AtomicUsize,
}

/// An answer that was not there within [`SERVED_WAIT`], while it lives.
struct Silent(Arc<Late>);

impl Silent {
    fn new(late: &Arc<Late>) -> Self {
        late.silent.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(late))
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.0.silent.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Late {
    /// Waits for an answer, in the queue's turn for a bounded time; what is left of the wait is given back.
    async fn wait_for<T: Send + 'static>(
        self: &Arc<Self>,
        mut answer: BoxFuture<'static, T>,
    ) -> BoxFuture<'static, T> {
        let silent = if self.silent.load(Ordering::Acquire) > 0 {
            None
        } else {
            match timeout(SERVED_WAIT, &mut answer).await {
                Ok(answered) => return Box::pin(ready(answered)),
                Err(_) => Some(Silent::new(self)),
            }
        };
        let place = tokio::select! {
            biased;
            answered = &mut answer => return Box::pin(ready(answered)),
            place = Arc::clone(&self.places).acquire_owned() => place,
        };
        // Not supervised: awaited. A task of its own, because the connection that awaits it does nothing
        // while its client does not read, and would keep the place.
        let waiting = tokio::spawn(async move {
            let _until_answered = (place, silent);
            answer.await
        });
        Box::pin(async {
            let answered = waiting.await;
            answered.unwrap_or_else(|error| resume_unwind(error.into_panic()))
        })
    }
}

impl TopicChanges {
    /// An empty queue. Must be called on a tokio runtime.
    pub(crate) fn start(tasks: &Supervisor) -> Self {
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        tasks.spawn(Task::TopicChanges, work_off(waiting));
        let late = Late {
            places: Arc::new(Semaphore::new(LATE_MAX)),
            silent: AtomicUsize::new(0),
        };
        Self {
            queue,
            late: Arc::new(late),
        }
    }

    /// Takes a change into the queue, behind all earlier ones. From what it gives, `rest` makes the answer.
    async fn enqueue<F, A, T>(
        &self,
        change: F,
        rest: impl FnOnce(F::Output) -> A + Send + 'static,
    ) -> BoxFuture<'static, T>
    where
        F: Future<Output: Send> + Send + 'static,
        A: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let (reply, waiting) = oneshot::channel();
        let late = Arc::clone(&self.late);
        let change: Change = Box::pin(async move {
            let answer = late.wait_for(Box::pin(rest(change.await)));
            // The client may be gone.
            drop(reply.send(answer.await));
        });
        let queued = self.queue.send(change).await;
        debug_assert!(queued.is_ok(), "the worker lives as long as the queue");
        Box::pin(async {
            let waiting = waiting.await;
            let answer = waiting.expect("a change ends with an answer unless it panics");
            answer.await
        })
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
    let answer = context.topic_changes.enqueue(change, rest).await;
    Taken::later(answer)
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep, sleep_until};

    use super::*;

    #[expect(
        clippy::disallowed_methods,
        reason = "tokio's own time, which is paused"
    )]
    fn start() -> (TopicChanges, Instant) {
        (TopicChanges::start(&Supervisor::new()), Instant::now())
    }

    /// Takes in a change whose answer takes `ms`; gives when the change began, in milliseconds.
    async fn enqueue_slow(
        changes: &TopicChanges,
        ms: u64,
        start: Instant,
    ) -> BoxFuture<'static, u64> {
        let change = async move { u64::try_from(start.elapsed().as_millis()).expect("soon") };
        let rest = move |began| async move {
            sleep(Duration::from_millis(ms)).await;
            began
        };
        changes.enqueue(change, rest).await
    }

    /// Each answer that was late made the next one late: changes that overlapped were out of order for as
    /// long as they came, though the bucket answered again.
    #[tokio::test(start_paused = true)]
    async fn changes_wait_for_each_other_again_once_the_bucket_answers() {
        let (changes, start) = start();
        let at = |ms| sleep_until(start + Duration::from_millis(ms));
        let silent = enqueue_slow(&changes, 5_000, start).await;
        let overlapping = enqueue_slow(&changes, 8_000, start).await;
        let later = enqueue_slow(&changes, 8_000, start).await;
        let began = tokio::join!(silent, overlapping, async {
            at(6_000).await;
            let first = enqueue_slow(&changes, 200, start).await;
            let second = enqueue_slow(&changes, 200, start).await;
            (first.await, second.await)
        });
        assert_eq!(began, (0, 1_000, (6_000, 6_200)));
        assert_eq!(later.await, 1_000, "one delay for all");
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_answers_are_late_and_then_the_queue_waits() {
        let (changes, start) = start();
        let mut answers = Vec::new();
        for _ in 0..=LATE_MAX + 1 {
            answers.push(enqueue_slow(&changes, 10_000, start).await);
        }
        // Whether their clients read them or not, the first ones give their places back.
        let last = answers.pop().expect("many").await;
        let before = answers.pop().expect("many").await;
        assert_eq!((before, last), (1_000, 10_000));
        for (nth, answer) in answers.into_iter().enumerate() {
            assert_eq!(answer.await, if nth == 0 { 0 } else { 1_000 });
        }
    }
}
