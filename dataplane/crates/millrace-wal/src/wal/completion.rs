//! How the records of one write learn that it is durable: one allocation per write, not per record.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

use crate::{AppendError, WalRange, error::WalFailure};

/// Shared by a write and the records in it.
#[derive(Debug)]
pub(super) struct Completion(Mutex<Outcome>);

#[derive(Debug)]
enum Outcome {
    Pending(Vec<Waker>),
    Done(Result<(), WalFailure>),
}

impl Completion {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Outcome::Pending(Vec::new()))))
    }

    /// Answers every record of the write. The first answer counts.
    pub(super) fn complete(&self, result: Result<(), WalFailure>) {
        let wakers = {
            let mut outcome = self.0.lock();
            match &mut *outcome {
                Outcome::Done(_) => return,
                Outcome::Pending(wakers) => {
                    let wakers = std::mem::take(wakers);
                    *outcome = Outcome::Done(result);
                    wakers
                }
            }
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// A record on its way to the device. Answers `Ok` once it is durable.
///
/// Records are acknowledged one by one, not in order of position: a later one may be durable
/// before an earlier one, and both then survive a crash. Dropping this does not take the record
/// back.
#[derive(Debug)]
#[must_use = "a record that nobody waits for may be lost unnoticed"]
pub struct Append {
    /// Where the record lies.
    pub range: WalRange,
    progress: Progress,
}

#[derive(Debug)]
enum Progress {
    /// Part of a write; the index of this record's waker, once it has left one.
    Waiting {
        completion: Arc<Completion>,
        waker: Option<usize>,
    },
    /// Not taken.
    Refused(AppendError),
}

impl Append {
    pub(super) fn waiting(range: WalRange, completion: Arc<Completion>) -> Self {
        Self {
            range,
            progress: Progress::Waiting {
                completion,
                waker: None,
            },
        }
    }

    /// A record that was not taken; `at` is where it would have started.
    pub(super) fn refused(at: u64, error: AppendError) -> Self {
        Self {
            range: WalRange { start: at, end: at },
            progress: Progress::Refused(error),
        }
    }
}

impl Future for Append {
    type Output = Result<(), AppendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (completion, index) = match &mut self.progress {
            Progress::Refused(error) => return Poll::Ready(Err(error.clone())),
            Progress::Waiting { completion, waker } => (completion, waker),
        };
        let mut outcome = completion.0.lock();
        let wakers = match &mut *outcome {
            Outcome::Done(result) => {
                return Poll::Ready(result.clone().map_err(AppendError::Failed));
            }
            Outcome::Pending(wakers) => wakers,
        };
        match index.and_then(|index| wakers.get_mut(index)) {
            Some(waker) => waker.clone_from(context.waker()),
            None => {
                *index = Some(wakers.len());
                wakers.push(context.waker().clone());
            }
        }
        Poll::Pending
    }
}
