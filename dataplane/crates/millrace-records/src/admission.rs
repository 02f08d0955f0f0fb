//! How many requests run, and how much memory they have.

use std::sync::Arc;

use millrace_budget::{Budget, Charge};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::{
    error::RecordsError,
    limits::{
        ADMISSION_WAIT, BODY_BYTES_MAX, REQUESTS_MAX, STREAMS_MAX, produce_bytes, read_bytes,
        requests_bytes,
    },
};

/// A request may run until this is dropped.
#[derive(Debug)]
pub struct Permit {
    _place: OwnedSemaphorePermit,
    /// A stream's memory is part of its place.
    _memory: Option<Charge>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Admission {
    requests: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    memory: Budget,
}

impl Admission {
    pub(crate) fn new() -> Self {
        Self {
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            memory: Budget::new(requests_bytes()),
        }
    }

    pub(crate) async fn read(&self, page_bytes: usize) -> Result<Permit, RecordsError> {
        self.request(read_bytes(page_bytes)).await
    }

    pub(crate) async fn produce(&self, body_bytes: Option<u64>) -> Result<Permit, RecordsError> {
        let announced = body_bytes.map_or(Ok(BODY_BYTES_MAX), usize::try_from);
        match announced {
            Ok(bytes) if bytes <= BODY_BYTES_MAX => self.request(produce_bytes(bytes)).await,
            _ => Err(RecordsError::body_too_large()),
        }
    }

    pub(crate) fn stream(&self) -> Result<Permit, RecordsError> {
        Ok(Permit {
            _place: place(&self.streams, "streams", STREAMS_MAX)?,
            _memory: None,
        })
    }

    async fn request(&self, bytes: u64) -> Result<Permit, RecordsError> {
        let place = place(&self.requests, "requests", REQUESTS_MAX)?;
        match timeout(ADMISSION_WAIT, self.memory.take(bytes)).await {
            Ok(memory) => Ok(Permit {
                _place: place,
                _memory: Some(memory),
            }),
            Err(_) => Err(RecordsError::no_memory()),
        }
    }
}

fn place(
    places: &Arc<Semaphore>,
    what: &str,
    max: usize,
) -> Result<OwnedSemaphorePermit, RecordsError> {
    let place = Arc::clone(places).try_acquire_owned();
    place.map_err(|_| RecordsError::busy(what, max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_more_than_the_bound_is_refused_until_one_has_ended() {
        let admission = Admission::new();
        let mut streams: Vec<_> = (0..STREAMS_MAX)
            .map(|_| admission.stream().expect("room"))
            .collect();
        let refused = admission.stream().expect_err("the bound");
        assert_eq!(refused.code, "TOO_MANY_REQUESTS");
        streams.pop();
        assert!(admission.stream().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_waited_for_and_no_request_needs_more_than_there_is() {
        let admission = Admission::new();
        let largest = *crate::limits::PAGE_BYTES.end();
        assert!(read_bytes(largest) <= requests_bytes());
        assert!(produce_bytes(BODY_BYTES_MAX) <= requests_bytes());
        let mut running = Vec::new();
        let refused = loop {
            match admission.read(largest).await {
                Ok(permit) => running.push(permit),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.code, "TOO_MANY_REQUESTS");
        assert!(!running.is_empty() && running.len() < REQUESTS_MAX);
        let (permit, ()) = tokio::join!(admission.read(largest), async { running.clear() });
        assert!(permit.is_ok(), "it got the memory that became free");
    }

    #[tokio::test]
    async fn an_announced_body_that_is_too_large_is_refused_at_once() {
        let admission = Admission::new();
        let max = BODY_BYTES_MAX as u64;
        assert!(admission.produce(Some(max)).await.is_ok());
        let refused = admission.produce(Some(max + 1)).await;
        assert_eq!(refused.expect_err("too large").code, "REQUEST_TOO_LARGE");
    }
}
