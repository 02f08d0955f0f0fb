//! What waits to be written and what waits to be answered.

use std::{collections::VecDeque, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use millrace_wire::{
    ApiKey,
    client::{RequestFrame, correlation_id_of},
};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::Inner;
use crate::{error::RequestError, metrics::ApiCounters, transport::BrokerAddress};

/// Where the answer to a request goes.
pub(crate) enum Reply {
    /// To one waiting caller. A request whose caller has left is not written.
    Once(oneshot::Sender<Result<Bytes, RequestError>>),
    /// To a function, which runs on the connection's task and must be short.
    To(Box<dyn FnOnce(Result<Bytes, RequestError>) + Send>),
    /// There is none (Produce with `acks=0`): the function is called with an empty frame once the
    /// request is written.
    Written(Box<dyn FnOnce(Result<Bytes, RequestError>) + Send>),
}

impl Reply {
    fn is_abandoned(&self) -> bool {
        matches!(self, Self::Once(sender) if sender.is_closed())
    }

    pub(super) fn give(self, answer: Result<Bytes, RequestError>) {
        match self {
            // A caller that has left wants no answer.
            Self::Once(sender) => drop(sender.send(answer)),
            Self::To(function) | Self::Written(function) => function(answer),
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Once(_) => "Once",
            Self::To(_) => "To",
            Self::Written(_) => "Written",
        })
    }
}

/// A request that is not yet written.
pub(super) struct Outgoing {
    pub(super) api_key: ApiKey,
    pub(super) counters: Arc<ApiCounters>,
    pub(super) frame: RequestFrame,
    pub(super) reply: Reply,
    pub(super) timeout: Duration,
    /// `timeout` after it may be sent.
    pub(super) deadline: Duration,
}

/// A request that is written and not yet answered.
struct Pending {
    correlation_id: i32,
    api_key: ApiKey,
    counters: Arc<ApiCounters>,
    reply: Reply,
    sent_at: Duration,
    timeout: Duration,
    deadline: Duration,
}

/// A request without an answer that is being written.
struct Writing {
    api_key: ApiKey,
    reply: Reply,
    timeout: Duration,
    deadline: Duration,
}

/// See the module.
pub(super) struct Queue {
    state: Mutex<State>,
    bytes_max: usize,
    /// Something changed for the task: a request, room in flight, the end of a pause.
    pub(super) changed: Notify,
    /// The earliest deadline moved forward.
    pub(super) deadline_changed: Notify,
    /// A caller may find room.
    room: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Outgoing>,
    waiting_bytes: usize,
    writing: Vec<Writing>,
    pending: VecDeque<Pending>,
    next_correlation_id: i32,
    throttled_until: Duration,
    /// When the task looks at deadlines next; nothing while it waits for a request.
    armed: Option<Duration>,
    closed: Option<RequestError>,
}

impl Queue {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            bytes_max,
            changed: Notify::new(),
            deadline_changed: Notify::new(),
            room: Notify::new(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed.is_some()
    }

    /// Waits until so many bytes fit. A request that is larger than the bound goes alone.
    pub(super) async fn room(&self, bytes: usize, inner: &Inner) -> Result<(), RequestError> {
        let waited = async {
            loop {
                let notified = self.room.notified();
                tokio::pin!(notified);
                notified.as_mut().enable();
                {
                    let state = self.state.lock();
                    let fits = state.waiting_bytes + bytes <= self.bytes_max;
                    if fits || state.waiting.is_empty() || state.closed.is_some() {
                        return;
                    }
                }
                notified.await;
            }
        };
        tokio::pin!(waited);
        let mut patience = inner.request_timeout;
        // A pause that the broker asks for is not part of the time.
        while tokio::time::timeout(patience, &mut waited).await.is_err() {
            let until = self.state.lock().throttled_until + inner.request_timeout;
            patience = until.saturating_sub(inner.clock.now());
            if patience.is_zero() {
                let what = "room in the queue";
                return Err(timed_out(&inner.address, what, inner.request_timeout));
            }
        }
        Ok(())
    }

    /// Accepts a request whose deadline counts from now; where the broker asked for a pause, from its
    /// end.
    pub(super) fn push(&self, mut outgoing: Outgoing) -> Result<(), RequestError> {
        let rearm = {
            let mut state = self.state.lock();
            if let Some(error) = &state.closed {
                return Err(error.clone());
            }
            let in_time = state.throttled_until + outgoing.timeout;
            outgoing.deadline = outgoing.deadline.max(in_time);
            let rearm = state.armed.is_none_or(|armed| outgoing.deadline < armed);
            if rearm {
                state.armed = Some(outgoing.deadline);
            }
            state.waiting_bytes += outgoing.frame.len();
            state.waiting.push_back(outgoing);
            rearm
        };
        self.changed.notify_one();
        if rearm {
            self.deadline_changed.notify_one();
        }
        Ok(())
    }

    /// Sends nothing before this time. The requests that wait have their whole time after it.
    pub(super) fn throttle_until(&self, time: Duration) {
        let mut state = self.state.lock();
        state.throttled_until = state.throttled_until.max(time);
        for outgoing in &mut state.waiting {
            outgoing.deadline = outgoing.deadline.max(time + outgoing.timeout);
        }
    }

    /// Takes what may be written now: as many requests as may be in flight. The pause, where
    /// nothing may be written before its end.
    pub(super) fn take(&self, inner: &Inner) -> Result<VecDeque<Bytes>, Option<Duration>> {
        let now = inner.clock.now();
        let mut segments = VecDeque::new();
        let mut state = self.state.lock();
        if let Some(pause) = state.throttled_until.checked_sub(now)
            && !pause.is_zero()
        {
            return Err(Some(pause));
        }
        while state.pending.len() < inner.limits.in_flight_max {
            let Some(outgoing) = state.waiting.pop_front() else {
                break;
            };
            state.waiting_bytes -= outgoing.frame.len();
            if !outgoing.reply.is_abandoned() {
                state.start(outgoing, now, &mut segments);
            }
        }
        drop(state);
        self.room.notify_waiters();
        if segments.is_empty() {
            return Err(None);
        }
        Ok(segments)
    }

    /// All that [`Self::take`] returned is written.
    pub(super) fn written(&self) {
        let written = std::mem::take(&mut self.state.lock().writing);
        for one in written {
            one.reply.give(Ok(Bytes::new()));
        }
    }

    /// Hands an answer to the caller that waits for it.
    pub(super) fn complete(&self, frame: Bytes, inner: &Inner) -> Result<(), RequestError> {
        let correlation_id = correlation_id_of(&frame)
            .map_err(|error| RequestError::malformed(&inner.address, &error))?;
        let now = inner.clock.now();
        let (pending, may_write) = {
            let mut state = self.state.lock();
            let may_write = !state.waiting.is_empty();
            (state.pending.pop_front(), may_write)
        };
        let protocol = |reason| RequestError::Protocol {
            address: inner.address.clone(),
            reason,
        };
        let Some(pending) = pending else {
            return Err(protocol(format!(
                "an answer with correlation id {correlation_id} to no request"
            )));
        };
        if pending.correlation_id != correlation_id {
            let reason = format!(
                "an answer with correlation id {correlation_id} instead of {}",
                pending.correlation_id
            );
            pending.counters.failed();
            pending.reply.give(Err(protocol(reason.clone())));
            return Err(protocol(reason));
        }
        pending.counters.answered(
            frame.len() + size_of::<u32>(),
            now.saturating_sub(pending.sent_at),
        );
        pending.reply.give(Ok(frame));
        if may_write {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Fails what is too late. How long until the next deadline; `None` if there is none.
    pub(super) fn expire(&self, inner: &Inner) -> Result<Option<Duration>, RequestError> {
        let now = inner.clock.now();
        let mut late = Vec::new();
        let next = {
            let mut state = self.state.lock();
            if let Some(pending) = state.pending.iter().find(|one| one.deadline <= now) {
                let what = format!("the answer to {:?}", pending.api_key);
                return Err(timed_out(&inner.address, &what, pending.timeout));
            }
            if let Some(writing) = state.writing.iter().find(|one| one.deadline <= now) {
                let what = format!("the acceptance of {:?}", writing.api_key);
                return Err(timed_out(&inner.address, &what, writing.timeout));
            }
            let mut kept = VecDeque::with_capacity(state.waiting.len());
            for outgoing in std::mem::take(&mut state.waiting) {
                if outgoing.deadline <= now || outgoing.reply.is_abandoned() {
                    state.waiting_bytes -= outgoing.frame.len();
                    late.push(outgoing);
                } else {
                    kept.push_back(outgoing);
                }
            }
            state.waiting = kept;
            let pending = state.pending.iter().map(|one| one.deadline);
            let next = pending
                .chain(state.writing.iter().map(|one| one.deadline))
                .chain(state.waiting.iter().map(|one| one.deadline))
                .min();
            state.armed = next;
            next
        };
        for outgoing in late {
            let what = format!("the turn of {:?} on a busy connection", outgoing.api_key);
            let error = timed_out(&inner.address, &what, outgoing.timeout);
            outgoing.counters.failed();
            outgoing.reply.give(Err(error));
        }
        self.room.notify_waiters();
        Ok(next.map(|at| at.saturating_sub(now)))
    }

    /// Ends everything: no request is accepted any more, all that wait fail.
    pub(super) fn close(&self, error: &RequestError) {
        let (waiting, writing, pending) = {
            let mut state = self.state.lock();
            if state.closed.is_none() {
                state.closed = Some(error.clone());
            }
            state.waiting_bytes = 0;
            (
                std::mem::take(&mut state.waiting),
                std::mem::take(&mut state.writing),
                std::mem::take(&mut state.pending),
            )
        };
        for one in writing {
            one.reply.give(Err(error.clone()));
        }
        let pending = pending.into_iter().map(|one| (one.counters, one.reply));
        let waiting = waiting.into_iter().map(|one| (one.counters, one.reply));
        for (counters, reply) in pending.chain(waiting) {
            counters.failed();
            reply.give(Err(error.clone()));
        }
        self.room.notify_waiters();
    }
}

impl State {
    /// Numbers a request and puts it in flight.
    fn start(&mut self, outgoing: Outgoing, now: Duration, segments: &mut VecDeque<Bytes>) {
        let Outgoing {
            api_key,
            counters,
            mut frame,
            reply,
            timeout,
            deadline,
        } = outgoing;
        let correlation_id = self.next_correlation_id;
        // Never negative: some brokers log such a number as an error.
        self.next_correlation_id = correlation_id.checked_add(1).unwrap_or(0);
        frame.set_correlation_id(correlation_id);
        counters.sent(frame.len());
        let (head, rest) = frame.into_segments();
        segments.push_back(head);
        segments.extend(rest);
        if matches!(reply, Reply::Written(_)) {
            self.writing.push(Writing {
                api_key,
                reply,
                timeout,
                deadline,
            });
        } else {
            self.pending.push_back(Pending {
                correlation_id,
                api_key,
                counters,
                reply,
                sent_at: now,
                timeout,
                deadline,
            });
        }
    }
}

fn timed_out(address: &BrokerAddress, what: &str, after: Duration) -> RequestError {
    RequestError::TimedOut {
        what: format!("{what} from {address}"),
        after,
    }
}
