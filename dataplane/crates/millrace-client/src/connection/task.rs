//! The task of a connection: writes the queue, reads the answers, watches the deadlines.
//!
//! The three are futures of one task, so that an answer that makes room for the next request does
//! not wake another task.

use std::{collections::VecDeque, future::pending, io, io::IoSlice, sync::Arc};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio_util::sync::CancellationToken;

use super::Inner;
use crate::{error::RequestError, metrics::Metrics, transport::Transport};

/// Room for small answers: several are read with one call.
const READ_BYTES: usize = 16 * 1024;
/// Less room than this is not worth a call.
const READ_BYTES_MIN: usize = 2 * 1024;
/// Bytes of a frame's length prefix.
const LENGTH_BYTES: usize = 4;

type Stream = Box<dyn Transport>;

pub(super) async fn run(inner: Arc<Inner>, stream: Stream, ended: CancellationToken) {
    let (reader, writer) = tokio::io::split(stream);
    let disconnected = |error: &io::Error| RequestError::Disconnected {
        address: inner.address.clone(),
        reason: error.to_string().into(),
    };
    let error = tokio::select! {
        // In this order: an answer makes room in flight, which the writer then fills.
        biased;
        error = read(&inner, reader) => error.unwrap_or_else(|error| disconnected(&error)),
        error = write(&inner, writer) => disconnected(&error),
        error = watch(&inner) => error,
        () = ended.cancelled() => RequestError::Closed,
    };
    tracing::debug!(broker = %inner.address, reason = %error, "connection ended");
    inner.queue.close(&error);
    Metrics::count(&inner.metrics.connections_closed);
}

/// Writes what may be written, for as long as the connection takes it.
async fn write(inner: &Inner, mut writer: WriteHalf<Stream>) -> io::Error {
    loop {
        match inner.queue.take(inner) {
            Ok(segments) => {
                if let Err(error) = write_all(&mut writer, segments).await {
                    return error;
                }
                inner.queue.written();
            }
            Err(Some(pause)) => tokio::time::sleep(pause).await,
            Err(None) => inner.queue.changed.notified().await,
        }
    }
}

async fn write_all(writer: &mut WriteHalf<Stream>, segments: VecDeque<Bytes>) -> io::Result<()> {
    writer.write_all_buf(&mut Segments(segments)).await?;
    writer.flush().await
}

/// Reads answers until the connection ends.
async fn read(inner: &Inner, mut reader: ReadHalf<Stream>) -> io::Result<RequestError> {
    let mut buffer = BytesMut::with_capacity(READ_BYTES);
    loop {
        let mut missing = LENGTH_BYTES;
        while let Some(length) = buffer.first_chunk::<LENGTH_BYTES>() {
            let length = u32::from_be_bytes(*length) as usize;
            if length > inner.response_bytes_max {
                return Ok(RequestError::Protocol {
                    address: inner.address.clone(),
                    reason: format!(
                        "a response of {length} bytes exceeds response_bytes_max, {}",
                        inner.response_bytes_max
                    ),
                });
            }
            missing = LENGTH_BYTES + length;
            if buffer.len() < missing {
                break;
            }
            let mut frame = buffer.split_to(missing);
            frame.advance(LENGTH_BYTES);
            if let Err(error) = inner.queue.complete(frame.freeze(), inner) {
                return Ok(error);
            }
            missing = LENGTH_BYTES;
        }
        let missing = missing - buffer.len();
        if missing > buffer.capacity() - buffer.len() {
            buffer.reserve(missing.max(READ_BYTES));
        } else if buffer.is_empty() && buffer.capacity() < READ_BYTES_MIN {
            buffer.reserve(READ_BYTES);
        }
        if reader.read_buf(&mut buffer).await? == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the broker closed the connection",
            ));
        }
    }
}

/// Ends the connection when an answer is late.
async fn watch(inner: &Inner) -> RequestError {
    loop {
        let next = match inner.queue.expire(inner) {
            Ok(next) => next,
            Err(error) => return error,
        };
        let sleep = async {
            match next {
                Some(pause) => tokio::time::sleep(pause).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = sleep => {}
            () = inner.queue.deadline_changed.notified() => {}
        }
    }
}

/// Segments as one buffer, for vectored writes.
struct Segments(VecDeque<Bytes>);

impl Buf for Segments {
    fn remaining(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    fn has_remaining(&self) -> bool {
        !self.0.is_empty()
    }

    fn chunk(&self) -> &[u8] {
        self.0.front().map_or(&[], |segment| &segment[..])
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let pairs = slices.iter_mut().zip(&self.0);
        pairs
            .map(|(slice, segment)| *slice = IoSlice::new(segment))
            .count()
    }

    fn advance(&mut self, mut count: usize) {
        while let Some(segment) = self.0.front_mut() {
            if count < segment.len() {
                segment.advance(count);
                return;
            }
            count -= segment.len();
            self.0.pop_front();
        }
    }
}
