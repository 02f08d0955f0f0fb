//! A bound on what consumers decompress at one time, for programs with little memory.

use std::sync::Arc;

use millrace_record::DECOMPRESSED_BYTES_MAX;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// One batch at a time for all consumers that share it, among those that decompress to more than an
/// ordinary one. Clones share everything.
///
/// A batch has the gate until the last of its records is dropped. So a reader must not hold records of
/// one batch while it waits for the next: it might wait for itself.
#[derive(Debug, Clone)]
pub struct DecompressionGate {
    ordinary_bytes_max: usize,
    turn: Arc<Semaphore>,
    places: Option<Arc<Semaphore>>,
}

impl DecompressionGate {
    /// What the batch behind a gate may decompress to, in bytes: the largest legal batch, so that each
    /// can be read.
    pub const BYTES_MAX: usize = DECOMPRESSED_BYTES_MAX;

    /// A gate that batches of at most `ordinary_bytes_max` decompressed bytes do not need.
    #[must_use]
    pub fn new(ordinary_bytes_max: usize) -> Self {
        Self {
            ordinary_bytes_max,
            turn: Arc::new(Semaphore::new(1)),
            places: None,
        }
    }

    /// As [`Self::new`]; and who passes takes one of `places`, each of which stands for
    /// [`Self::BYTES_MAX`] of memory that other work uses as well. Their semaphore must never be closed.
    #[must_use]
    pub fn with_places(ordinary_bytes_max: usize, places: Arc<Semaphore>) -> Self {
        Self {
            places: Some(places),
            ..Self::new(ordinary_bytes_max)
        }
    }

    pub(super) fn ordinary_bytes_max(&self) -> usize {
        self.ordinary_bytes_max
    }

    pub(super) async fn pass(self) -> Passed {
        let permit = async |semaphore: Arc<Semaphore>| {
            let permit = semaphore.acquire_owned().await;
            permit.expect("it is never closed")
        };
        let turn = permit(self.turn).await;
        let place = match self.places {
            Some(places) => Some(permit(places).await),
            None => None,
        };
        Passed {
            _turn: turn,
            _place: place,
        }
    }
}

/// The gate is taken until this is dropped.
#[derive(Debug)]
pub(super) struct Passed {
    _turn: OwnedSemaphorePermit,
    _place: Option<OwnedSemaphorePermit>,
}
