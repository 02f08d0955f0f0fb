//! Changes ACLs, client quotas, credentials and delegation tokens: one change after the other, each to its end, whether its
//! client reads the response, stops reading, or has disconnected.
//!
//! A change is checked against memory, stored, used in memory, and logged. The future of a handler is not
//! polled while its client does not read, and is dropped with the connection. There, a change could hold up
//! all later ones, or stay stored without taking effect until a restart. So a task of its own makes changes.

use std::{future::pending, sync::Arc};

use futures_util::FutureExt;
use millrace_tasks::{Supervisor, Task};
use millrace_wire::service::BoxFuture;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Interval, MissedTickBehavior, interval},
};

use crate::delegation_tokens::TokenChanges;

/// Changes that may wait. Past it, a connection that asks for one more is not read from until there
/// is room.
const WAITING_MAX: usize = 64;

/// The queue of changes; the task that makes them ends with the queue. A panic in a change ends the broker,
/// because memory may lack what is stored; the next process reads it from there.
#[derive(Debug)]
pub(crate) struct SecurityChanges {
    queue: mpsc::Sender<BoxFuture<'static, ()>>,
}

impl SecurityChanges {
    /// An empty queue. Expired delegation tokens are removed between changes. Must be called on a tokio runtime.
    pub(crate) fn start(tasks: &Supervisor, tokens: Option<Arc<TokenChanges>>) -> Self {
        let (queue, mut waiting) = mpsc::channel::<BoxFuture<'static, ()>>(WAITING_MAX);
        tasks.spawn(Task::SecurityChanges, async move {
            let mut due = tokens.map(|tokens| {
                let mut due = interval(tokens.check_interval());
                due.set_missed_tick_behavior(MissedTickBehavior::Delay);
                (due, tokens)
            });
            loop {
                tokio::select! {
                    change = waiting.recv() => match change {
                        Some(change) => change.await,
                        None => break,
                    },
                    tokens = next(due.as_mut()) => tokens.sweep().await,
                }
            }
        });
        Self { queue }
    }

    /// Takes a change into the queue, behind all earlier ones. Gives what waits for its result.
    pub(crate) async fn enqueue<T: Send + 'static>(
        &self,
        change: impl Future<Output = T> + Send + 'static,
    ) -> BoxFuture<'static, T> {
        let (reply, result) = oneshot::channel();
        let change = change.map(|made| {
            // The client may be gone.
            drop(reply.send(made));
        });
        let queued = self.queue.send(Box::pin(change)).await;
        debug_assert!(queued.is_ok(), "the worker lives as long as the queue");
        Box::pin(result.map(|made| made.expect("a change has a result unless it panics")))
    }
}

/// The tokens, once they are to be swept; never where there are none.
async fn next(due: Option<&mut (Interval, Arc<TokenChanges>)>) -> &TokenChanges {
    match due {
        Some((due, tokens)) => {
            due.tick().await;
            tokens
        }
        None => pending().await,
    }
}
