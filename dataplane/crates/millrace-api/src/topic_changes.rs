//! Creates, grows and deletes topics: one change after the other, in request order, each to its end
//! even if the client has disconnected, because a topic must not be left half created.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt;
use millrace_tasks::{Supervisor, Task};
use millrace_wire::service::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use crate::{
    call::{Answer, Outcome, Taken},
    context::Context,
};

/// Changes that may wait. Past it, a connection that asks for one more is not read from until there
/// is room; other connections go on.
const WAITING_MAX: usize = 256;

type Change = BoxFuture<'static, ()>;

/// The queue of changes; the task that works it off ends with the queue.
#[derive(Debug)]
pub(crate) struct TopicChanges(mpsc::Sender<Change>);

impl TopicChanges {
    /// An empty queue. Must be called on a tokio runtime.
    pub(crate) fn start(tasks: &Supervisor) -> Self {
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        tasks.spawn(Task::TopicChanges, work_off(waiting));
        Self(queue)
    }
}

async fn work_off(mut waiting: mpsc::Receiver<Change>) {
    while let Some(change) = waiting.recv().await {
        if AssertUnwindSafe(change).catch_unwind().await.is_err() {
            tracing::error!("a change of topics panicked");
        }
    }
}

/// Takes a change into the queue, behind those of all earlier requests; answered when it is done.
pub(crate) async fn enqueue<F>(context: &Arc<Context>, change: F) -> Outcome
where
    F: Future<Output = Answer> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    let change: Change = Box::pin(async move {
        // The client may be gone.
        drop(reply.send(change.await));
    });
    let queued = context.topic_changes.0.send(change).await;
    debug_assert!(queued.is_ok(), "the worker lives as long as the queue");
    Taken::later(async {
        answer
            .await
            .expect("a change ends with an answer unless it panics")
    })
}
