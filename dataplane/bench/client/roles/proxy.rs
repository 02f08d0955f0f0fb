//! A proxy that delays what passes, in each direction, and keeps its pace: delayed bytes do not hold
//! back those that follow.

use std::{error::Error, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use millrace_time::{Clock, SystemClock};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::sleep,
};

/// Chunks on their way in one direction of a connection; each is what one read brought.
const CHUNKS_MAX: usize = 4_096;
const CHUNK_BYTES: usize = 64 << 10;

/// Serves until the process is killed.
pub(super) async fn proxy(
    listen: &str,
    target: &str,
    delay_ms: u64,
) -> Result<Value, Box<dyn Error>> {
    let delay = Duration::from_millis(delay_ms);
    let clock = SystemClock::shared();
    let listener = TcpListener::bind(listen).await?;
    loop {
        let (client, _) = listener.accept().await?;
        let (target, clock) = (target.to_owned(), Arc::clone(&clock));
        tokio::spawn(async move {
            // A broker that is not there looks as it would without the proxy: closed.
            let Ok(server) = TcpStream::connect(target).await else {
                return;
            };
            let _ = client.set_nodelay(true).and(server.set_nodelay(true));
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let there = delayed(from_client, to_server, delay, Arc::clone(&clock));
            let back = delayed(from_server, to_client, delay, clock);
            tokio::join!(there, back);
        });
    }
}

/// Until one side closes; then so does the other one.
async fn delayed(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    delay: Duration,
    clock: Arc<dyn Clock>,
) {
    let (sender, mut receiver) = mpsc::channel::<(Duration, Bytes)>(CHUNKS_MAX);
    let read = async {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(CHUNK_BYTES);
            if !matches!(from.read_buf(&mut buffer).await, Ok(1..)) {
                break;
            }
            let due = clock.now() + delay;
            if sender.send((due, buffer.split().freeze())).await.is_err() {
                break;
            }
        }
        drop(sender);
    };
    let write = async {
        while let Some((due, bytes)) = receiver.recv().await {
            sleep(due.saturating_sub(clock.now())).await;
            if to.write_all(&bytes).await.is_err() {
                break;
            }
        }
        receiver.close();
        // The other side may be gone already.
        let _ = to.shutdown().await;
    };
    tokio::join!(read, write);
}
