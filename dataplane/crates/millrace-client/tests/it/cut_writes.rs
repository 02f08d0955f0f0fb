//! A connector whose connections end or stall in the middle of a write.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use millrace_client::{
    BoxFuture,
    transport::{BrokerAddress, Connector, Transport},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Cuts the first connections that write more than a request without records has, or takes nothing
/// more from them.
#[derive(Debug)]
pub(crate) struct CutsWrites {
    pub(crate) inner: Arc<dyn Connector>,
    /// Whether the connection takes nothing more, instead of ending.
    pub(crate) stalls: bool,
    /// How many connections are still to be cut.
    pub(crate) cuts: Arc<AtomicUsize>,
}

struct CutTransport {
    inner: Box<dyn Transport>,
    stalls: bool,
    is_stalled: bool,
    written: usize,
    cuts: Arc<AtomicUsize>,
}

const WRITTEN_BEFORE_CUT: usize = 10_000;

impl Connector for CutsWrites {
    fn connect<'a>(
        &'a self,
        address: &'a BrokerAddress,
    ) -> BoxFuture<'a, io::Result<Box<dyn Transport>>> {
        Box::pin(async move {
            Ok(Box::new(CutTransport {
                inner: self.inner.connect(address).await?,
                stalls: self.stalls,
                is_stalled: false,
                written: 0,
                cuts: Arc::clone(&self.cuts),
            }) as Box<dyn Transport>)
        })
    }
}

impl AsyncRead for CutTransport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl AsyncWrite for CutTransport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_stalled {
            return Poll::Pending;
        }
        if self.written > WRITTEN_BEFORE_CUT && self.cuts.load(Ordering::Relaxed) > 0 {
            self.cuts.fetch_sub(1, Ordering::Relaxed);
            self.is_stalled = self.stalls;
            if self.is_stalled {
                return Poll::Pending;
            }
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        if let Poll::Ready(Ok(count)) = &written {
            self.written += count;
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
