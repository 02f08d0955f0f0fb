//! Connections of the admin HTTP: a socket that takes nothing for long is closed.
//!
//! A stream waits for its reader, and the broker serves a bounded number of them. Without a bound in
//! time, a few readers that have stopped for good would keep all others out.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::serve::Listener;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpSocket, TcpStream, lookup_host},
    time::{Sleep, sleep},
};

/// What the system may hold for a connection that does not take it. Without a bound it grows to
/// mebibytes, and a stream's reader would have stopped long before the broker sees it.
const SEND_BUFFER_BYTES: u32 = 128 * 1024;
/// Connections that wait to be accepted: those of a few workers and scripts.
const BACKLOG: u32 = 1_024;
/// How long a connection may take nothing: longer than a person looks at a paused page. Streams
/// resume at a cursor.
const STUCK_MAX: Duration = Duration::from_mins(10);

/// Accepts [`Connection`]s.
pub(crate) struct AdminListener(TcpListener);

impl AdminListener {
    /// Listens at an address or name. Port 0 is any free one.
    ///
    /// # Errors
    /// The name is unknown, or the port is taken or not allowed.
    pub(crate) async fn bind(host: &str, port: u16) -> io::Result<Self> {
        let mut failed = io::ErrorKind::AddrNotAvailable.into();
        for address in lookup_host((host, port)).await? {
            match listen(address) {
                Ok(listener) => return Ok(Self(listener)),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The socket is broken.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit it.
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

impl Listener for AdminListener {
    type Io = Connection<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, address) = Listener::accept(&mut self.0).await;
        (Connection::new(stream), address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.address()
    }
}

/// See the module.
pub(crate) struct Connection<S> {
    stream: S,
    stuck_max: Duration,
    /// Since the socket has taken nothing.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<S> Connection<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self::with_bound(stream, STUCK_MAX)
    }

    fn with_bound(stream: S, stuck_max: Duration) -> Self {
        Self {
            stream,
            stuck_max,
            stuck: None,
        }
    }

    /// What the socket says, or an error where it has said nothing for too long.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stuck = None;
            return polled;
        }
        let max = self.stuck_max;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(max)));
        match stuck.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, duplex},
        time::timeout,
    };

    use super::*;

    #[tokio::test]
    async fn a_reader_may_pause_but_not_for_ever() {
        const BUFFER: &[u8] = &[0; 10];
        let (stream, mut reader) = duplex(BUFFER.len());
        let mut connection = Connection::with_bound(stream, Duration::from_mins(1));
        connection.write_all(BUFFER).await.expect("room");
        let blocked = timeout(Duration::from_millis(1), connection.write_u8(0)).await;
        assert!(blocked.is_err(), "no room");
        assert!(connection.stuck.is_some());
        reader.read_u8().await.expect("a byte");
        connection.write_u8(0).await.expect("room again");
        assert!(connection.stuck.is_none(), "the time starts over");
        connection.stuck_max = Duration::from_millis(1);
        let error = connection.write_u8(0).await.expect_err("stuck");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
