//! Opening in two steps. A log is first only read, so that its owner can say whether it is the right
//! one; opening it then writes its header, and from there on it can be trimmed.

use std::sync::Arc;

use millrace_model::{NodeEpoch, NodeId};
use millrace_time::SharedClock;

use super::{Shared, Wal};
use crate::{
    OpenError, WalConfig,
    config::Limits,
    device::BlockDevice,
    fence::{Held, LogFence},
    format::header::{EXTENTS_MAX, Header},
    header_store::{self, HeaderStore, Stored},
    recovery::{self, Depth, Recovered, Scan},
    ring::Ring,
};

/// Whose log it is: written into its header by each opening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalOwner {
    /// The cluster, at most [`CLUSTER_ID_BYTES_MAX`](millrace_model::limits::CLUSTER_ID_BYTES_MAX)
    /// bytes and not empty.
    pub cluster_id: String,
    /// The node.
    pub node_id: NodeId,
    /// The node's start that opened the log.
    pub generation: NodeEpoch,
}

/// What a log's header says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalIdentity {
    /// Generated when the device was formatted.
    pub wal_id: u64,
    /// `None` where the log was never opened by a version that names an owner.
    pub owner: Option<WalOwner>,
    /// The highest metadata revision that a [`Wal::trim`] relied on. Older metadata does not know where
    /// the records are that were trimmed.
    pub revision: u64,
}

/// A log whose header was read, and nothing changed.
#[derive(Debug, Clone)]
pub struct UnopenedWal {
    device: Arc<dyn BlockDevice>,
    ring: Ring,
    config: WalConfig,
    header: Header,
    slot: u64,
    is_blank: bool,
}

/// A log whose records were found, and nothing changed.
#[derive(Debug)]
pub struct ScannedWal {
    log: UnopenedWal,
    scan: Scan,
    fence: Option<Arc<dyn LogFence>>,
}

impl UnopenedWal {
    /// Reads the header of the log on `device`.
    ///
    /// # Errors
    /// The device fails, holds something else, or its header is damaged.
    pub async fn read(device: Arc<dyn BlockDevice>, config: WalConfig) -> Result<Self, OpenError> {
        let ring = recovery::ring_of(&*device)?;
        // What a killed process left in a cache must not be found now and lost later.
        flush(&*device).await?;
        let (header, slot, is_blank) = match header_store::read(&*device).await? {
            Stored::Log(header, slot) => (header, slot, false),
            Stored::Blank => (blank(&config, device.capacity()), 1, true),
        };
        Ok(Self {
            device,
            ring,
            config,
            header,
            slot,
            is_blank,
        })
    }

    /// What the header says; `None` where the device is blank.
    #[must_use]
    pub fn identity(&self) -> Option<WalIdentity> {
        (!self.is_blank).then(|| self.header.wal_identity())
    }

    /// The log's id; of a blank device the one that it will be formatted with.
    #[must_use]
    pub fn wal_id(&self) -> u64 {
        self.header.identity
    }

    /// Finds what was not trimmed, and hands each record to `sink` in order of position. A head that is
    /// kept keeps more than itself in memory. Where this fails, what `sink` got is worth nothing.
    ///
    /// # Errors
    /// As [`Wal::open`].
    pub async fn scan(
        self,
        sink: &mut (dyn FnMut(Recovered) + Send),
    ) -> Result<ScannedWal, OpenError> {
        let device = Arc::clone(&self.device);
        let scan = recovery::scan(device, self.ring, &self.header, Depth::Heads, sink).await?;
        let pieces = scan.extents.len().max(self.header.extents.len());
        if pieces > EXTENTS_MAX {
            return Err(OpenError::TooFragmented(pieces));
        }
        Ok(ScannedWal {
            log: self,
            scan,
            fence: None,
        })
    }

    /// Gives up whatever the device holds: the log is empty from here on, under the id that the
    /// configuration brought, which is returned.
    ///
    /// # Errors
    /// The device fails.
    pub async fn discard(self) -> Result<u64, OpenError> {
        let header = Header {
            generation: self.header.generation,
            ..blank(&self.config, self.device.capacity())
        };
        let mut store = HeaderStore::after(self.device, header, self.slot);
        // Twice, since a dead process's last header may still arrive.
        store.claim().await.map_err(header_unwritten)?;
        store.claim().await.map_err(header_unwritten)?;
        Ok(self.config.identity)
    }
}

impl ScannedWal {
    /// See [`UnopenedWal::wal_id`].
    #[must_use]
    pub fn wal_id(&self) -> u64 {
        self.log.wal_id()
    }

    /// The log acknowledges nothing unless its owner still holds `fence`.
    #[must_use]
    pub fn fenced_by(mut self, fence: Arc<dyn LogFence>) -> Self {
        self.fence = Some(fence);
        self
    }

    /// Opens the log: from here on it belongs to `owner`, or to whom it belonged where none is given.
    ///
    /// # Errors
    /// The device fails, or a later start owns the log.
    pub async fn open(self, owner: Option<WalOwner>, clock: SharedClock) -> Result<Wal, OpenError> {
        let Self { log, scan, fence } = self;
        let epoch = owner.as_ref().map(|owner| owner.generation);
        let fence = fence
            .map(|fence| Held::acquire(fence, epoch.unwrap_or_default()))
            .transpose()?;
        // A former owner that still runs may have written since the first flush. What was found must not be lost once the header
        // lists it.
        let flushed = flush(&*log.device).await;
        flushed.map_err(|error| explained(error, fence.as_ref()))?;
        let limits = Limits::of(&log.config, log.ring);
        let mut store = HeaderStore::after(Arc::clone(&log.device), log.header, log.slot);
        let started = start_session(&mut store, &scan, &limits, owner).await;
        started.map_err(|error| explained(error, fence.as_ref()))?;
        let mut shared = Shared::new(
            log.device, log.ring, limits, log.config, clock, store, &scan,
        );
        shared.fence = fence;
        Ok(Wal {
            shared: Arc::new(shared),
        })
    }
}

async fn flush(device: &dyn BlockDevice) -> Result<(), OpenError> {
    let flushed = device.sync().await;
    flushed.map_err(|source| OpenError::Device {
        operation: "flush",
        source,
    })
}

/// The header of a log that was never opened.
fn blank(config: &WalConfig, capacity: u64) -> Header {
    Header {
        generation: 0,
        identity: config.identity,
        capacity,
        session: 0,
        session_start: 0,
        window: 0,
        trim: 0,
        trimmed_to: 0,
        stable: 0,
        clean_end: Some(0),
        revision: 0,
        owner: None,
        extents: Vec::new(),
    }
}

/// Writes the header of a new session: from here on, chunks above `scan.next` are this session's,
/// and below it only the extents count.
async fn start_session(
    store: &mut HeaderStore,
    scan: &Scan,
    limits: &Limits,
    owner: Option<WalOwner>,
) -> Result<(), OpenError> {
    store.claim().await.map_err(header_unwritten)?;
    let updated = store.update(|header| {
        header.session += 1;
        header.session_start = scan.next;
        header.window = limits.window;
        header.trim = scan.spans.first().map_or(scan.next, |span| span.start);
        header.stable = scan.next;
        header.clean_end = None;
        header.owner = owner.or_else(|| header.owner.take());
        header.extents.clone_from(&scan.extents);
    });
    updated.await.map_err(header_unwritten)
}

/// The device may have refused the header because the log was taken over meanwhile.
fn explained(error: OpenError, fence: Option<&Held>) -> OpenError {
    let OpenError::Device { source, .. } = &error else {
        return error;
    };
    let fenced = fence.and_then(|fence| fence.explain(source));
    fenced.map_or(error, OpenError::Fence)
}

fn header_unwritten(source: std::io::Error) -> OpenError {
    OpenError::Device {
        operation: "write the header",
        source,
    }
}
