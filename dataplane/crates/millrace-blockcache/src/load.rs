//! Sends the queued requests.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use millrace_objects::{Corrupt, GetError, ObjectReader, ReadError};
use millrace_tasks::Task;

use crate::{
    block::{BlockId, Decoded},
    block_cache::Inner,
    in_flight::InFlight,
    queue::Urgency,
    reader::Place,
    state::Failure,
};

/// How often those who are ready to run are let go first, before requests are sent: what they ask
/// for then goes along. Takes microseconds, and nothing where nobody is ready.
const YIELDS: usize = 2;

impl Inner {
    /// Sends what waits, soon.
    pub(crate) fn dispatch(self: &Arc<Self>) {
        {
            let mut state = self.state.lock();
            if state.queue.is_empty() || std::mem::replace(&mut state.is_dispatching, true) {
                return;
            }
        }
        let inner = Arc::clone(self);
        self.tasks.spawn(Task::BlockCacheDispatch, async move {
            for _ in 0..YIELDS {
                tokio::task::yield_now().await;
            }
            inner.state.lock().is_dispatching = false;
            inner.send();
        });
    }

    /// Sends as much as there are slots for.
    fn send(self: &Arc<Self>) {
        loop {
            let next = self.state.lock().next_request();
            let Some((places, in_flight)) = next else {
                return;
            };
            let request = Request {
                inner: Arc::clone(self),
                places,
                in_flight,
                is_settled: false,
            };
            // Receiving and checking blocks takes processor time in long turns, which acknowledgements
            // must not wait for. Where it panics, those who wait for its blocks get an error.
            self.tasks.spawn_awaited_background(request.run());
        }
    }
}

/// What a request brought, and whether it was a prefetch.
type Read = (Result<Vec<Bytes>, GetError>, bool);

/// One request for some blocks of one object. Frees its slot however it ends.
struct Request {
    inner: Arc<Inner>,
    places: Vec<Place>,
    in_flight: Arc<InFlight>,
    is_settled: bool,
}

impl Request {
    async fn run(mut self) {
        let (read, was_prefetch) = self.read().await;
        let failed = |error: ReadError| {
            Arc::new(Failure {
                error: Arc::new(error),
                was_prefetch,
            })
        };
        let mut loaded: Vec<(BlockId, Result<Decoded, Arc<Failure>>)> = Vec::new();
        match read {
            Ok(found) => {
                for (place, bytes) in self.places.iter().zip(found) {
                    let decoded = match self.inner.check(place, bytes) {
                        Ok(decoded) => Ok(decoded),
                        Err(_) => self.inner.read_again(place).await.map_err(failed),
                    };
                    loaded.push((place.id, decoded));
                }
            }
            Err(error) => {
                if let Some(first) = self.places.first() {
                    self.inner.report_truncated(first, &error);
                }
                let failure = failed(error.into());
                let failures = self
                    .places
                    .iter()
                    .map(|place| (place.id, Err(Arc::clone(&failure))));
                loaded.extend(failures);
            }
        }
        self.settle(loaded);
    }

    /// Reads the blocks, and gives whether nobody has waited for them. A prefetch waits for its share
    /// of the network first; if a reader comes meanwhile, it waits in the tier of a miss instead. Once
    /// it has its share it goes as fast as any. Blocks that nobody wants any more by then are left out.
    async fn read(&mut self) -> Read {
        let sources = self.inner.sources.clone();
        // Where the network is short, streams take turns.
        let flow = self.places.first().map_or(0, |place| place.block.stream.0);
        if self.in_flight.urgency() == Urgency::Prefetch {
            let prefetch = sources.prefetch.for_flow(flow);
            let (_, span) = self.pieces();
            let admitted = tokio::select! {
                biased;
                admitted = prefetch.admit_read(span) => Some(admitted),
                () = self.in_flight.roused.notified() => None,
            };
            {
                let mut state = self.inner.state.lock();
                state.admit(&self.in_flight, &mut self.places);
            }
            if let (Some(admitted), Some(first)) = (admitted, self.places.first()) {
                let (pieces, span) = self.pieces();
                let read = self
                    .inner
                    .timed(span, admitted.get_pieces(&first.key, &pieces));
                return (read.await, true);
            }
        }
        let Some(first) = self.places.first() else {
            return (Ok(Vec::new()), true);
        };
        let (pieces, span) = self.pieces();
        let miss = sources.miss.for_flow(flow);
        let read = self.inner.timed(span, miss.get_pieces(&first.key, &pieces));
        (read.await, false)
    }

    /// Where the blocks stand in the object, and how many bytes lie from the first to the last.
    fn pieces(&self) -> (Vec<Range<u64>>, u64) {
        let pieces: Vec<_> = self.places.iter().map(piece).collect();
        let start = pieces.first().map_or(0, |piece| piece.start);
        let end = pieces.last().map_or(start, |piece| piece.end);
        (pieces, end - start)
    }

    fn settle(&mut self, loaded: Vec<(BlockId, Result<Decoded, Arc<Failure>>)>) {
        self.is_settled = true;
        let now = self.inner.clock.now();
        {
            let mut state = self.inner.state.lock();
            for (id, outcome) in loaded {
                state.settle(id, outcome, now);
            }
            state.queue.ended(self.in_flight.urgency());
            state.serve_those_who_wait(now);
        }
        self.inner.send();
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.is_settled {
            return;
        }
        // The runtime ends, or a panic went through: those who wait find their channel closed.
        let mut state = self.inner.state.lock();
        for place in &self.places {
            state.abandon(place.id, &self.in_flight);
        }
        state.queue.ended(self.in_flight.urgency());
    }
}

fn piece(place: &Place) -> Range<u64> {
    place.block.position..place.block.position + u64::from(place.block.size)
}

impl Inner {
    /// Counts a request of so many bytes, and learns how long it takes.
    async fn timed<T>(
        &self,
        bytes: u64,
        read: impl Future<Output = Result<T, GetError>>,
    ) -> Result<T, GetError> {
        self.fetched(bytes);
        let started = self.clock.now();
        let read = read.await;
        if read.is_ok() {
            let took = self.clock.now().saturating_sub(started);
            self.state.lock().queue.answered(bytes, took);
        }
        read
    }

    /// Counts a request of so many bytes.
    fn fetched(&self, bytes: u64) {
        self.metrics.fetched_bytes.add(bytes);
        self.metrics.requests.add(1);
    }

    /// Reads one block, and once more where it comes corrupt: a byte may have been flipped on the
    /// way, and the object in the store be sound.
    pub(crate) async fn read_alone(&self, place: &Place) -> Result<Decoded, ReadError> {
        match self.read_block(place).await? {
            Ok(decoded) => Ok(decoded),
            Err(_) => self.read_again(place).await,
        }
    }

    async fn read_again(&self, place: &Place) -> Result<Decoded, ReadError> {
        let key = &place.key;
        tracing::warn!(%key, "a block was read corrupt; reading it once more");
        let read = self.read_block(place).await?;
        read.map_err(|reason| ObjectReader::corrupt(&self.sources.miss, key, &place.block, reason))
    }

    async fn read_block(&self, place: &Place) -> Result<Result<Decoded, Corrupt>, GetError> {
        let piece = piece(place);
        self.fetched(piece.end - piece.start);
        let found = self.sources.miss.get_pieces(&place.key, &[piece]).await;
        let found = found.inspect_err(|error| self.report_truncated(place, error))?;
        let bytes = found.into_iter().next().unwrap_or_default();
        Ok(self.check(place, bytes))
    }

    /// Checks a block. Where it is sound although it was corrupt, it has been restored.
    fn check(&self, place: &Place, bytes: Bytes) -> Result<Decoded, Corrupt> {
        let decoded = Decoded::check(&place.block, bytes)?;
        let corrupt = self.sources.miss.corrupt();
        corrupt.sound_block(&place.key, place.block.position);
        Ok(decoded)
    }

    fn report_truncated(&self, place: &Place, error: &GetError) {
        let (corrupt, range) = (self.sources.miss.corrupt(), place.block.range());
        corrupt.report_truncated(&place.key, Some(range), error);
    }
}
