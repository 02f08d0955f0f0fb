//! A broker's way to its database. While it is cut, nothing gets through and no connection ends, as when a network drops every
//! packet. What was on its way arrives once it is restored.

use std::{io, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp},
    sync::watch,
};
use tokio_util::task::AbortOnDropHandle;

const COPY_BYTES: usize = 16 * 1024;

/// Forwards connections; ends when it is dropped.
#[derive(Debug)]
pub(super) struct Link {
    address: SocketAddr,
    is_open: watch::Sender<bool>,
    _accepting: AbortOnDropHandle<()>,
}

impl Link {
    /// Listens on an address of its own. Must be called within a runtime.
    pub(super) fn to(server: SocketAddr) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = TcpListener::from_std(listener)?;
        let (is_open, state) = watch::channel(true);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, server, state.clone()));
            }
        });
        Ok(Self {
            address,
            is_open,
            _accepting: AbortOnDropHandle::new(accepting),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn cut(&self) {
        self.is_open.send_replace(false);
    }

    pub(super) fn restore(&self) {
        self.is_open.send_replace(true);
    }
}

/// Forwards both ways. That a side closes is also held back while the link is cut.
async fn forward(client: TcpStream, server: SocketAddr, mut is_open: watch::Receiver<bool>) {
    if is_open.wait_for(|&is_open| is_open).await.is_err() {
        return;
    }
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::join!(
        copy(from_client, to_server, is_open.clone()),
        copy(from_server, to_client, is_open),
    );
}

async fn copy(
    mut from: tcp::OwnedReadHalf,
    mut to: tcp::OwnedWriteHalf,
    mut is_open: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        // The sender is gone once the drill has ended.
        if is_open.wait_for(|&is_open| is_open).await.is_err() || read == 0 {
            return;
        }
        let Some(bytes) = buffer.get(..read) else {
            return;
        };
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn nothing_gets_through_until_it_is_restored() {
        let server = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let link = Link::to(server.local_addr().expect("bound")).expect("listens");
        let mut client = TcpStream::connect(link.address()).await.expect("connects");
        let (mut accepted, _) = server.accept().await.expect("forwards");
        let mut buffer = [0; 3];
        client.write_all(b"one").await.expect("writes");
        accepted.read_exact(&mut buffer).await.expect("gets it");
        link.cut();
        client.write_all(b"two").await.expect("is not refused");
        let held = timeout(Duration::from_millis(50), accepted.read_exact(&mut buffer));
        held.await.expect_err("nothing gets through");
        link.restore();
        accepted.read_exact(&mut buffer).await.expect("gets it");
        assert_eq!(&buffer, b"two");
    }
}
