//! Keeps a former owner of a log from acknowledging anything.
//!
//! A broker whose log another broker has taken over must not acknowledge a write that the other one has not read.
//! It may have been stopped, cut off from the network or paused by the hypervisor, so neither a lock nor a lease
//! tells it in time. The order of steps does: the new owner raises the fence *before* it reads the log, and from then on
//! no write of the former one is acknowledged. Three fences do this, each where it can:
//!
//! - `shared_page`: brokers of one machine. The former owner looks at a page that both see, after each durable write
//!   and before it acknowledges.
//! - `reservation`: a device that several hosts are attached to refuses the writes of all but one.
//! - `single_attachment`: a device that is attached to one host at a time. Moving it is the fence, before the log is opened.

mod reservation;
mod shared_page;
mod single_attachment;

use std::{fmt::Debug, io, sync::Arc};

use millrace_model::NodeEpoch;

pub use reservation::DeviceReservation;
pub use shared_page::SharedPage;
pub use single_attachment::SingleAttachment;

/// Why a log may not be used.
#[derive(Debug, thiserror::Error)]
pub enum FenceError {
    /// A later start has taken the log over.
    #[error("epoch {epoch} no longer owns the write-ahead log: epoch {current} has taken it over")]
    Fenced {
        /// Who asked.
        epoch: NodeEpoch,
        /// Who owns the log.
        current: NodeEpoch,
    },
    /// Another log has taken this one's place.
    #[error("the write-ahead log was replaced by another one, which epoch {current} owns")]
    Replaced {
        /// Who owns the other log.
        current: NodeEpoch,
    },
    /// The device refuses the writes of this host, and does not tell whose it accepts.
    #[error(
        "epoch {epoch} no longer owns the write-ahead log: its device refuses the writes of this host, so another broker \
         has taken it over"
    )]
    Refused {
        /// Who wrote.
        epoch: NodeEpoch,
    },
    /// The device is gone.
    #[error(
        "epoch {epoch} no longer has the write-ahead log's device: its volume was detached, by a broker that has taken the \
         log over or by an operator"
    )]
    Detached {
        /// Who used it.
        epoch: NodeEpoch,
    },
    /// The fence cannot be read or written. Nobody may acknowledge without it.
    #[error("the fence of the write-ahead log failed: {0}")]
    Io(#[from] io::Error),
}

/// Where a log's owner is written down.
pub trait LogFence: Debug + Send + Sync + 'static {
    /// Makes `epoch` the owner. From the moment this returns, no write of an earlier epoch is acknowledged, also of one
    /// that is under way. Acquiring the same epoch again changes nothing.
    ///
    /// # Errors
    /// A later epoch owns the log, or the fence failed.
    fn acquire(&self, epoch: NodeEpoch) -> Result<(), FenceError>;

    /// Whether `epoch` still owns the log. Called after each durable write and before its acknowledgement, so it must be
    /// fast and must not rely on what it has seen before.
    ///
    /// # Errors
    /// Another epoch owns the log, or the fence failed.
    fn check(&self, epoch: NodeEpoch) -> Result<(), FenceError>;

    /// Whether the device failed with `error` because `epoch` no longer owns the log; `None` where the device is broken.
    /// Called once, when a log fails.
    fn explain(&self, _epoch: NodeEpoch, _error: &io::Error) -> Option<FenceError> {
        None
    }
}

/// A fence that was acquired.
#[derive(Debug)]
pub(crate) struct Held {
    fence: Arc<dyn LogFence>,
    epoch: NodeEpoch,
}

impl Held {
    pub(crate) fn acquire(fence: Arc<dyn LogFence>, epoch: NodeEpoch) -> Result<Self, FenceError> {
        fence.acquire(epoch)?;
        Ok(Self { fence, epoch })
    }

    /// Whether what is durable by now may be acknowledged.
    pub(crate) fn check(&self) -> Result<(), FenceError> {
        self.fence.check(self.epoch)
    }

    /// See [`LogFence::explain`].
    pub(crate) fn explain(&self, error: &io::Error) -> Option<FenceError> {
        self.fence.explain(self.epoch, error)
    }
}
