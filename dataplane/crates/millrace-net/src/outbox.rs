//! Responses to bytes: segments of many responses, written with vectored writes.

use std::{collections::VecDeque, io, io::IoSlice, sync::Arc};

use bytes::{Buf, Bytes};
use millrace_wire::{Pace, Response};

use crate::{
    config::{BACKGROUND_BYTES_MIN, WRITE_SEGMENTS_MAX, WRITE_TURN_BYTES},
    transport::Transport,
};

/// What is to be written on one connection, in order.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    segments: VecDeque<Bytes>,
    bytes: usize,
    /// The pace of those responses that are sent in the background.
    background: Option<Arc<dyn Pace>>,
}

impl Outbox {
    pub(crate) fn push(&mut self, response: Response) {
        self.bytes += response.len();
        if let Some(pace) = response.background() {
            self.background = Some(Arc::clone(pace));
        }
        self.segments.extend(
            response
                .into_segments()
                .into_iter()
                .filter(|s| !s.is_empty()),
        );
    }

    /// Bytes that have not been written.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether this is sent in the background: for a few bytes, going there costs more than it saves.
    pub(crate) fn is_background(&self) -> bool {
        self.background.is_some() && self.bytes >= BACKGROUND_BYTES_MIN
    }

    /// Waits until the next turn may be written.
    pub(crate) async fn pace(&self) {
        if let Some(pace) = &self.background {
            pace.pass(self.bytes.min(WRITE_TURN_BYTES) as u64).await;
        }
    }

    /// Forgets everything, and the memory for it.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Writes as much as the transport takes now, but at most `bytes_max`; the bytes written.
    ///
    /// # Errors
    /// The transport's; `WouldBlock` when it takes nothing.
    pub(crate) fn try_write(
        &mut self,
        transport: &impl Transport,
        bytes_max: usize,
    ) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); WRITE_SEGMENTS_MAX];
        let (mut count, mut left) = (0, bytes_max);
        for (slice, segment) in slices.iter_mut().zip(&self.segments) {
            let part = segment.get(..left).unwrap_or(segment);
            *slice = IoSlice::new(part);
            count += 1;
            left -= part.len();
            if left == 0 {
                break;
            }
        }
        let written = transport.try_write(&slices[..count])?;
        if written == 0 && self.bytes > 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.advance(written);
        Ok(written)
    }

    fn advance(&mut self, mut written: usize) {
        self.bytes -= written;
        while let Some(front) = self.segments.front_mut() {
            if written < front.len() {
                front.advance(written);
                return;
            }
            written -= front.len();
            self.segments.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_write_continues_where_it_stopped() {
        let mut outbox = Outbox::default();
        let segments = ["abc", "", "de", "f"].map(Bytes::from).to_vec();
        outbox.push(Response::from_segments(segments));
        assert_eq!(outbox.bytes(), 6);
        outbox.advance(4);
        assert_eq!(outbox.segments, ["e", "f"]);
        outbox.advance(2);
        assert_eq!((outbox.segments.len(), outbox.bytes()), (0, 0));
    }
}
