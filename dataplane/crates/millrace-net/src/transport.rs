//! What carries a connection's bytes: the seam behind which encryption is added.
//!
//! Both halves of a connection use one transport through a shared reference, as they use a socket.
//! A transport that transforms bytes keeps its state behind its own lock, which is never contended,
//! because both halves of such a connection run in one task. A connection is generic over the transport, so plaintext
//! pays nothing for the seam: its reads go into the frame's own buffer, its writes are vectored.

use std::io::{self, IoSlice};

use bytes::{BytesMut, buf::Limit};
use tokio::net::{TcpStream, UnixStream};

/// A stream of bytes in both directions that is ready, or says when to try again.
pub(crate) trait Transport: Send + Sync + 'static {
    /// Whether writing on another thread never makes the reading half wait.
    const HALVES_ARE_APART: bool;

    /// Waits until [`Transport::try_read`] may give something. May be ready too often.
    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send;

    /// Takes what has arrived, as far as there is space; 0 is the end of the input.
    ///
    /// # Errors
    /// `WouldBlock` where nothing has arrived, which includes a handshake that is under way.
    fn try_read(&self, space: &mut Limit<&mut BytesMut>) -> io::Result<usize>;

    /// Waits until [`Transport::try_write`] or [`Transport::try_flush`] may get on.
    fn writable(&self) -> impl Future<Output = io::Result<()>> + Send;

    /// Takes the first so many of these bytes over.
    ///
    /// # Errors
    /// `WouldBlock` where it can take none now.
    fn try_write(&self, segments: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Hands to the network what was taken over and is still held back.
    ///
    /// # Errors
    /// `WouldBlock` where some of it is still held back.
    fn try_flush(&self) -> io::Result<()>;
}

/// A socket of tokio's.
macro_rules! socket {
    ($($socket:ty),*) => {$(
        impl Transport for $socket {
            const HALVES_ARE_APART: bool = true;

            async fn readable(&self) -> io::Result<()> {
                Self::readable(self).await
            }

            fn try_read(&self, space: &mut Limit<&mut BytesMut>) -> io::Result<usize> {
                self.try_read_buf(space)
            }

            async fn writable(&self) -> io::Result<()> {
                Self::writable(self).await
            }

            fn try_write(&self, segments: &[IoSlice<'_>]) -> io::Result<usize> {
                self.try_write_vectored(segments)
            }

            /// A socket holds nothing back.
            fn try_flush(&self) -> io::Result<()> {
                Ok(())
            }
        }
    )*};
}

// Of a network's client, and of the broker's own, which is in the same process.
socket!(TcpStream, UnixStream);
