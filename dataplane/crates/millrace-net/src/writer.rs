//! Writes responses, those of catch-up reads at a lower priority.
//!
//! Sending a mebibyte takes a quarter of a millisecond of processor time. On the threads that
//! acknowledge appends, responses of hundreds of catching-up clients would stand in a queue before each
//! acknowledgement.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
};

use tokio_util::task::AbortOnDropHandle;

use crate::{
    config::WRITE_TURN_BYTES, connection::Shared, outbox::Outbox, registry::Pulse,
    transport::Transport,
};

/// Writes the responses of one connection.
pub(crate) struct Writer<T> {
    transport: Arc<T>,
    shared: Arc<Shared>,
    pulse: Arc<Pulse>,
}

impl<T> Clone for Writer<T> {
    fn clone(&self) -> Self {
        let Self {
            transport,
            shared,
            pulse,
        } = self;
        Self::new(Arc::clone(transport), Arc::clone(shared), Arc::clone(pulse))
    }
}

impl<T> Writer<T> {
    pub(crate) const fn new(transport: Arc<T>, shared: Arc<Shared>, pulse: Arc<Pulse>) -> Self {
        Self {
            transport,
            shared,
            pulse,
        }
    }
}

impl<T: Transport> Writer<T> {
    /// Writes everything.
    ///
    /// # Errors
    /// The transport's.
    pub(crate) async fn flush(&self, outbox: &mut Outbox) -> io::Result<()> {
        if !T::HALVES_ARE_APART || !outbox.is_background() {
            return self.write(outbox, false).await;
        }
        let (writer, mut outbox) = (self.clone(), std::mem::take(outbox));
        let writing = async move { writer.write(&mut outbox, true).await };
        let tasks = &self.shared.tasks;
        // Ends with the connection.
        let written = AbortOnDropHandle::new(tasks.spawn_awaited_background(writing)).await;
        written.map_err(io::Error::other)?
    }

    /// Only in the background, a pace is kept: its turns are handed on by threads of low priority, for which nothing that is
    /// urgent may wait.
    async fn write(&self, outbox: &mut Outbox, in_background: bool) -> io::Result<()> {
        if in_background {
            outbox.pace().await;
        }
        let mut turn_left = WRITE_TURN_BYTES;
        loop {
            if turn_left == 0 && outbox.bytes() > 0 {
                tokio::task::yield_now().await;
                if in_background {
                    outbox.pace().await;
                }
                turn_left = WRITE_TURN_BYTES;
            }
            let progress = if outbox.bytes() > 0 {
                outbox.try_write(&*self.transport, turn_left)
            } else {
                match self.transport.try_flush() {
                    Ok(()) => return Ok(()),
                    Err(error) => Err(error),
                }
            };
            match progress {
                Ok(written) => {
                    turn_left -= written;
                    self.shared.metrics.bytes_out.increment(written as u64);
                    self.pulse.moved(&self.shared.clock);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.pulse.write_blocked.store(true, Ordering::Relaxed);
                    self.transport.writable().await?;
                    self.pulse.write_blocked.store(false, Ordering::Relaxed);
                }
                Err(error) => return Err(error),
            }
        }
    }
}
