//! One connection: the reading half (frames, stage 1) and the writing half (stage 2, responses).

use std::{
    future::poll_fn,
    io,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    task::Poll,
};

use bytes::BytesMut;
use futures_util::FutureExt;
use millrace_budget::{Budget, Charge};
use millrace_purgatory::Timers;
use millrace_tasks::Supervisor;
use millrace_time::SharedClock;
use millrace_wire::service::{CloseReason, Peer, Service};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    config::{LINGER, NetConfig, SHARE_OF_FREE_MEMORY, WRITE_GATHER_BYTES, WRITE_SEGMENTS_MAX},
    frame::{FrameError, FrameReader, Step},
    metrics::{Metrics, MuteReason, Reasons},
    outbox::Outbox,
    pipeline::{Finished, Pipeline},
    registry::{Entry, Pulse},
    transport::Transport,
    warnings::Warnings,
    writer::Writer,
};

/// What all connections of a server use together.
pub(crate) struct Shared {
    pub(crate) config: NetConfig,
    pub(crate) service: Arc<dyn Service>,
    /// The broker's memory for requests and responses in flight. Requests wait for room; responses
    /// exist already and are charged without waiting, and new requests wait until they have been sent.
    pub(crate) budget: Budget,
    pub(crate) clock: SharedClock,
    /// Ends of throttles.
    pub(crate) timers: Timers,
    pub(crate) metrics: Metrics,
    pub(crate) warnings: Warnings,
    /// Knows where background work runs.
    pub(crate) tasks: Supervisor,
}

/// Why reading from a connection ended.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("the client closed the connection")]
    Eof,
    #[error("the client closed the connection in the middle of a frame")]
    Truncated,
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("{0}")]
    Service(CloseReason),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the broker is stopping")]
    Stopped,
    #[error("closed by the broker: {0}")]
    Killed(&'static str),
    #[error("a request handler panicked")]
    Panicked,
}

impl End {
    /// The stable word for the metric.
    fn code(&self) -> &'static str {
        match self {
            Self::Eof => "client_closed",
            Self::Truncated => "truncated_frame",
            Self::Frame(error) => error.code(),
            Self::Service(reason) => code_of(reason),
            Self::Io(_) => "io_error",
            Self::Stopped => "stopping",
            Self::Killed(verdict) => verdict,
            Self::Panicked => "panicked",
        }
    }

    /// Whether somebody did something that should not have been done.
    fn is_violation(&self) -> bool {
        matches!(
            self,
            Self::Frame(_) | Self::Service(_) | Self::Truncated | Self::Panicked
        )
    }
}

fn code_of(reason: &CloseReason) -> &'static str {
    match reason {
        CloseReason::Malformed(_) => "malformed_request",
        CloseReason::Unencodable(_) => "unencodable_response",
        CloseReason::Unacknowledged(_) => "unacknowledged_failure",
        CloseReason::AuthenticationFailed(_) => "authentication_failed",
        CloseReason::NotAuthenticated => "not_authenticated",
        CloseReason::SessionExpired => "session_expired",
        CloseReason::Stopping => "stopping",
    }
}

/// Serves one connection to its end.
pub(crate) async fn serve(
    transport: impl Transport,
    peer: Arc<Peer>,
    shared: Arc<Shared>,
    entry: Entry,
) {
    shared.metrics.opened.increment(1);
    shared.metrics.connections.increment(1.0);
    let transport = Arc::new(transport);
    let writer = Writer::new(
        Arc::clone(&transport),
        Arc::clone(&shared),
        Arc::clone(&entry.pulse),
    );
    let connection = Connection {
        transport,
        writer,
        exchange: Exchange::new(&shared.config),
        peer,
        shared,
        pulse: Arc::clone(&entry.pulse),
        entry,
    };
    // A handler that panics is a defect; it must cost its own connection only, and be seen.
    let end = AssertUnwindSafe(connection.run())
        .catch_unwind()
        .await
        .unwrap_or(End::Panicked);
    connection.report(&end);
    connection.shared.service.disconnected(&connection.peer);
}

struct Connection<T> {
    transport: Arc<T>,
    writer: Writer<T>,
    exchange: Exchange,
    peer: Arc<Peer>,
    shared: Arc<Shared>,
    pulse: Arc<Pulse>,
    entry: Entry,
}

impl<T> Drop for Connection<T> {
    fn drop(&mut self) {
        self.shared.metrics.connections.decrement(1.0);
    }
}

/// Where the two halves meet. Both use it in one task, so the lock is never contended.
struct Exchange {
    state: Mutex<ExchangeState>,
    /// The reading half waits here for a request or bytes to leave.
    freed: Notify,
}

struct ExchangeState {
    pipeline: Pipeline,
    /// Requests read whose responses have not been written.
    in_flight: usize,
    /// Nothing will be added any more.
    input_ended: bool,
    /// Wakes the writing half when the input ends.
    writer: Option<std::task::Waker>,
}

impl Exchange {
    fn new(config: &NetConfig) -> Self {
        let state = ExchangeState {
            pipeline: Pipeline::new(config.connection_bytes_max),
            in_flight: 0,
            input_ended: false,
            writer: None,
        };
        Self {
            state: Mutex::new(state),
            freed: Notify::new(),
        }
    }

    fn end_input(&self) {
        let writer = {
            let mut state = self.state.lock();
            state.input_ended = true;
            state.writer.take()
        };
        if let Some(writer) = writer {
            writer.wake();
        }
    }
}

impl<T: Transport> Connection<T> {
    async fn run(&self) -> End {
        let mut reading = pin!(async {
            let end = self.read_all().await.err().unwrap_or(End::Eof);
            self.exchange.end_input();
            end
        });
        let mut writing = pin!(self.write_all());
        let mut killed = pin!(self.pulse.kill.cancelled());
        let end = tokio::select! {
            biased;
            () = &mut killed => return self.killed(),
            end = &mut reading => end,
            () = &mut writing => End::Eof,
        };
        // What is in flight is finished and, where the client still listens, answered.
        tokio::select! {
            biased;
            () = &mut killed => {}
            () = &mut writing => {}
            () = tokio::time::sleep(LINGER) => {}
        }
        end
    }

    fn stopped(&self) -> End {
        self.pulse.verdict().map_or(End::Stopped, End::Killed)
    }

    fn killed(&self) -> End {
        End::Killed(self.pulse.verdict().unwrap_or("drain_deadline"))
    }

    fn report(&self, end: &End) {
        self.shared.metrics.closed(end.code());
        let Peer {
            id,
            address,
            listener,
            ..
        } = &*self.peer;
        if end.is_violation() && self.shared.warnings.admit() {
            let code = end.code();
            tracing::warn!(connection = id, client = %address, listener, code, "connection closed: {end}");
        } else {
            tracing::debug!(connection = id, client = %address, listener, "connection closed: {end}");
        }
    }

    /// The reading half: frames and stage 1, one after the other.
    async fn read_all(&self) -> Result<(), End> {
        let mut stopped = pin!(self.pulse.stop.cancelled());
        let bytes_max = self.shared.config.request_bytes_max;
        let mut reader = match self.pulse.is_half_open() {
            true => FrameReader::before_authentication(),
            false => FrameReader::new(bytes_max),
        };
        loop {
            let (frame, charge) = tokio::select! {
                biased;
                () = &mut stopped => return Err(self.stopped()),
                next = self.next_request(&mut reader) => match next? {
                    Some(next) => next,
                    None => return Ok(()),
                },
            };
            self.begin(frame.len());
            let accepted = self.shared.service.accept(&self.peer, frame).await;
            let pushed = self.exchange.state.lock().pipeline.push(accepted, charge);
            pushed.map_err(End::Service)?;
            if self.pulse.is_half_open() && self.peer.identity.principal().is_some() {
                self.entry.end_half_open();
                reader.allow(bytes_max);
            }
            // Lets the other connections of this thread have their turn when much has arrived.
            tokio::task::consume_budget().await;
        }
    }

    fn begin(&self, frame_bytes: usize) {
        self.shared.metrics.bytes_in.increment(frame_bytes as u64);
        let mut state = self.exchange.state.lock();
        state.in_flight += 1;
        self.pulse
            .in_flight
            .store(state.in_flight, Ordering::Relaxed);
    }

    /// The next frame, once the connection may have another request in flight.
    async fn next_request(
        &self,
        reader: &mut FrameReader,
    ) -> Result<Option<(BytesMut, Charge)>, End> {
        self.until_unmuted().await;
        let mut charge: Option<Charge> = None;
        loop {
            match reader.step()? {
                Step::Frame(frame) => {
                    self.pulse.leave_frame();
                    let charge = match charge {
                        Some(charge) => charge,
                        None => self.reserve(0).await,
                    };
                    return Ok(Some((frame, charge)));
                }
                Step::Reserve(bytes) => {
                    match &mut charge {
                        Some(charge) => self.reserve_more(charge, bytes).await,
                        None => charge = Some(self.reserve(bytes).await),
                    }
                    reader.grant(bytes);
                }
                Step::Read => {
                    if !self.fill(reader).await? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Reads once; false at the end of the input.
    async fn fill(&self, reader: &mut FrameReader) -> Result<bool, End> {
        let inside_frame = reader.is_inside_frame();
        self.pulse.enter_frame(inside_frame, &self.shared.clock);
        loop {
            reader.release();
            self.transport.readable().await?;
            // A request in flight may have used the quota up since this one was waited for. A frame
            // that has started is read to its end, because it holds memory that others wait for.
            if !inside_frame {
                self.until_unmuted().await;
            }
            match self.transport.try_read(&mut reader.space()) {
                Ok(0) if inside_frame => return Err(End::Truncated),
                Ok(0) => return Ok(false),
                Ok(_) => {
                    self.pulse.moved(&self.shared.clock);
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until nothing forbids to read one more request from this connection.
    async fn until_unmuted(&self) {
        let mut muted = self.shared.metrics.unmuted();
        loop {
            let end = self.peer.throttle.end();
            let throttled = end.checked_sub(self.shared.clock.now());
            let throttled = throttled.filter(|left| !left.is_zero());
            let reasons = self
                .fullness()
                .with(MuteReason::QuotaThrottle, throttled.is_some());
            muted.become_of(reasons);
            if reasons.is_empty() {
                return;
            }
            // Whatever leaves may end a reason, and may begin a throttle: all are looked at again.
            let freed = self.exchange.freed.notified();
            match throttled {
                None => freed.await,
                Some(left) => tokio::select! {
                    () = freed => {}
                    () = self.shared.timers.sleep(left) => {}
                    () = self.peer.throttle.ends_before(end) => {}
                },
            }
            // The client's time runs from here on: the broker did not listen before.
            self.pulse.moved(&self.shared.clock);
        }
    }

    /// The bounds of this connection that are reached.
    fn fullness(&self) -> Reasons {
        let config = &self.shared.config;
        let share = self.shared.budget.unused() / SHARE_OF_FREE_MEMORY;
        let bytes_max = share.min(config.connection_bytes_max as u64);
        let state = self.exchange.state.lock();
        let too_many = state.in_flight >= config.pipeline_depth;
        // Without bytes of its own in flight, nothing would wake it up.
        let bytes = state.pipeline.bytes();
        let too_large = bytes > 0 && bytes >= bytes_max;
        Reasons::NONE
            .with(MuteReason::InFlight, too_many)
            .with(MuteReason::ConnectionBytes, too_large)
    }

    async fn reserve(&self, bytes: usize) -> Charge {
        let bytes = bytes as u64;
        match self.shared.budget.try_take(bytes) {
            Some(charge) => charge,
            None => {
                let _muted = self.shared.metrics.mute(MuteReason::BrokerMemory);
                let _starved = self.pulse.starve(&self.shared.clock);
                self.shared.budget.take(bytes).await
            }
        }
    }

    async fn reserve_more(&self, charge: &mut Charge, bytes: usize) {
        let bytes = bytes as u64;
        if !charge.try_grow(bytes) {
            let _muted = self.shared.metrics.mute(MuteReason::BrokerMemory);
            let _starved = self.pulse.starve(&self.shared.clock);
            charge.grow(bytes).await;
        }
    }

    /// The writing half: finished responses, in request order, until the input has ended and the
    /// last one has been written. When the client has gone, the rest is finished and thrown away.
    async fn write_all(&self) {
        let mut outbox = Outbox::default();
        let mut finished = Vec::new();
        let mut client_gone = false;
        while self.gather(&mut outbox, &mut finished).await {
            if !client_gone && let Err(error) = self.writer.flush(&mut outbox).await {
                tracing::debug!(connection = self.peer.id, "writing failed: {error}");
                client_gone = true;
                self.pulse.give_up("write_failed");
                self.pulse.stop.cancel();
            }
            outbox.clear();
            self.leave(&mut finished);
        }
    }

    /// Collects what is finished; false when nothing will come any more.
    async fn gather(&self, outbox: &mut Outbox, charges: &mut Vec<Charge>) -> bool {
        poll_fn(|context| {
            let mut state = self.exchange.state.lock();
            while outbox.bytes() < WRITE_GATHER_BYTES && charges.len() < WRITE_SEGMENTS_MAX {
                let Poll::Ready(Finished { response, charge }) = state.pipeline.poll_next(context)
                else {
                    break;
                };
                if let Some(response) = response {
                    outbox.push(response);
                }
                charges.push(charge);
            }
            if !charges.is_empty() {
                return Poll::Ready(true);
            }
            if state.input_ended && state.pipeline.is_empty() {
                return Poll::Ready(false);
            }
            state.writer = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// The responses have been written: their requests are no longer in flight.
    fn leave(&self, charges: &mut Vec<Charge>) {
        {
            let mut state = self.exchange.state.lock();
            state.in_flight -= charges.len();
            charges
                .iter()
                .for_each(|charge| state.pipeline.release(charge));
            self.pulse
                .in_flight
                .store(state.in_flight, Ordering::Relaxed);
        }
        charges.clear();
        self.exchange.freed.notify_one();
    }
}
