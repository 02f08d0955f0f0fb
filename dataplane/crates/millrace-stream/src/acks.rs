//! The order of acknowledgements in one stream.
//!
//! Records become durable in any order, but are acknowledged in append order. Recovery depends on it:
//! it drops everything after a gap, which is correct only if nothing after a gap was ever
//! acknowledged.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_util::FutureExt;
use millrace_model::Offset;
use tokio::sync::oneshot;

use crate::{cache::Durability, error::AppendError};

/// Resolves when a record is durable, or can never be.
pub(crate) type Durable = Pin<Box<dyn Future<Output = Result<(), AppendError>> + Send>>;

/// The promise of an append: a future that resolves when the entry and everything before it in the
/// stream is durable. Dropping it takes nothing back.
#[derive(Debug)]
pub struct AppendTicket(Ticket);

#[derive(Debug)]
enum Ticket {
    Settled(Result<(), AppendError>),
    Waiting(oneshot::Receiver<Result<(), AppendError>>),
}

impl AppendTicket {
    pub(crate) fn settled(result: Result<(), AppendError>) -> Self {
        Self(Ticket::Settled(result))
    }
}

impl Future for AppendTicket {
    type Output = Result<(), AppendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Ticket::Settled(result) => Poll::Ready(result.clone()),
            Ticket::Waiting(receiver) => {
                let received = ready!(Pin::new(receiver).poll(context));
                Poll::Ready(received.unwrap_or(Err(AppendError::Closed)))
            }
        }
    }
}

/// An appended entry whose record is on its way to the device.
pub(crate) struct InFlight {
    pub(crate) durable: Durable,
    /// The entry's end offset.
    pub(crate) end: Offset,
    pub(crate) durability: Arc<Durability>,
}

type Waiter = oneshot::Sender<Result<(), AppendError>>;

/// Who waits for what in one stream. Lives under the stream's lock.
#[derive(Default)]
pub(crate) struct Acks {
    in_flight: VecDeque<InFlight>,
    /// Tickets by the end offset that they wait for, ascending.
    tickets: VecDeque<(Offset, Waiter)>,
    /// Whether someone takes from `in_flight` now.
    driven: bool,
    failed: Option<AppendError>,
}

impl Acks {
    /// Why nothing will be acknowledged any more, if so.
    pub(crate) fn failed(&self) -> Option<&AppendError> {
        self.failed.as_ref()
    }

    /// Adds an append, which ends above every one before it.
    pub(crate) fn push(&mut self, in_flight: InFlight) -> AppendTicket {
        let end = in_flight.end;
        self.in_flight.push_back(in_flight);
        self.wait_for(end)
    }

    /// A ticket for something that ends at `end` and is not acknowledged yet.
    pub(crate) fn wait_for(&mut self, end: Offset) -> AppendTicket {
        if let Some(error) = &self.failed {
            return AppendTicket::settled(Err(error.clone()));
        }
        let (sender, receiver) = oneshot::channel();
        let at = self.tickets.partition_point(|&(other, _)| other <= end);
        self.tickets.insert(at, (end, sender));
        AppendTicket(Ticket::Waiting(receiver))
    }

    /// Whether the caller has to take the in-flight entries from now on.
    pub(crate) fn must_drive(&mut self) -> bool {
        !std::mem::replace(&mut self.driven, true)
    }

    /// The next entry to wait for. With `None` the caller's duty to drive ends.
    pub(crate) fn take_first(&mut self) -> Option<InFlight> {
        let first = self.in_flight.pop_front();
        self.driven = first.is_some();
        first
    }

    /// The next entry, if it is settled already.
    pub(crate) fn take_settled(&mut self) -> Option<(InFlight, Result<(), AppendError>)> {
        let result = self
            .in_flight
            .front_mut()?
            .durable
            .as_mut()
            .now_or_never()?;
        Some((self.in_flight.pop_front()?, result))
    }

    /// The tickets that are due now that everything below `confirmed` is durable.
    pub(crate) fn due(&mut self, confirmed: Offset) -> Vec<Waiter> {
        let due = self.tickets.partition_point(|&(end, _)| end <= confirmed);
        self.tickets
            .drain(..due)
            .map(|(_, waiter)| waiter)
            .collect()
    }

    /// Gives up on everything that is not acknowledged. Returns all tickets.
    pub(crate) fn fail(&mut self, error: AppendError) -> Vec<Waiter> {
        self.failed = Some(error);
        self.in_flight.clear();
        self.tickets.drain(..).map(|(_, waiter)| waiter).collect()
    }
}

impl std::fmt::Debug for Acks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acks")
            .field("in_flight", &self.in_flight.len())
            .field("tickets", &self.tickets.len())
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}
