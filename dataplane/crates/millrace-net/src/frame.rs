//! Bytes to frames: a 4-byte big-endian signed length, then that many bytes. Pure, no I/O.
//!
//! Every frame gets its own buffer, so that the APIs may change it in place and pass on parts of it
//! without a copy. An idle connection holds no buffer.

use bytes::{
    Buf, BytesMut,
    buf::{BufMut, Limit},
};

use crate::config::{EAGER_FRAME_BYTES, INBOX_BYTES, UNAUTHENTICATED_BYTES_MAX};

/// Bytes of the length prefix.
const PREFIX_BYTES: usize = 4;

/// Why the bytes are not a frame. The connection cannot go on, since the next frame's start is lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("the frame length {0} is negative")]
    Negative(i32),
    #[error("a frame of {length} bytes exceeds {bound}={max}{}", .looks_like.map_or("", Foreign::hint))]
    TooLong {
        length: usize,
        max: usize,
        bound: &'static str,
        looks_like: Option<Foreign>,
    },
}

/// Another protocol whose first bytes were read as a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Foreign {
    Tls,
    Http,
}

impl Foreign {
    fn of(prefix: [u8; PREFIX_BYTES]) -> Option<Self> {
        match &prefix {
            [0x16, 0x03, ..] => Some(Self::Tls),
            b"GET " | b"POST" | b"HEAD" | b"PUT " | b"OPTI" => Some(Self::Http),
            _ => None,
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Tls => " (it looks like TLS on a plaintext listener)",
            Self::Http => " (it looks like HTTP on a Kafka listener)",
        }
    }
}

impl FrameError {
    /// The stable word for the metric.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Negative(_) => "frame_negative",
            Self::TooLong { .. } => "frame_too_long",
        }
    }
}

/// What has to happen next.
#[derive(Debug)]
pub(crate) enum Step {
    /// A whole frame, without its prefix.
    Frame(BytesMut),
    /// Bytes have to be read into [`FrameReader::space`].
    Read,
    /// This many bytes of memory have to be granted before more is read.
    Reserve(usize),
}

/// Cuts what arrives on one connection into frames.
#[derive(Debug)]
pub(crate) struct FrameReader {
    length_max: usize,
    /// What the bound is called.
    bound: &'static str,
    inbox: BytesMut,
    partial: Option<Partial>,
}

/// A frame whose length is known.
#[derive(Debug)]
struct Partial {
    body: BytesMut,
    length: usize,
    /// Bytes of `body` that memory has been granted for.
    granted: usize,
}

impl Partial {
    fn new(length: usize) -> Self {
        Self {
            body: BytesMut::new(),
            length,
            granted: 0,
        }
    }

    /// Bytes to be granted next.
    fn wanted(&self) -> usize {
        let target = self
            .granted
            .saturating_mul(2)
            .max(EAGER_FRAME_BYTES)
            .min(self.length);
        target - self.granted
    }
}

impl FrameReader {
    pub(crate) fn new(length_max: usize) -> Self {
        Self {
            length_max,
            bound: "socket.request.max.bytes",
            inbox: BytesMut::new(),
            partial: None,
        }
    }

    /// A reader for a client that has not authenticated.
    pub(crate) fn before_authentication() -> Self {
        Self {
            bound: "the bound before authentication",
            ..Self::new(UNAUTHENTICATED_BYTES_MAX)
        }
    }

    /// The client has authenticated: it may send as much as any other. Bytes at hand are kept.
    pub(crate) fn allow(&mut self, length_max: usize) {
        let inbox = std::mem::take(&mut self.inbox);
        *self = Self {
            inbox,
            ..Self::new(length_max)
        };
    }

    /// Goes as far as the bytes at hand allow.
    pub(crate) fn step(&mut self) -> Result<Step, FrameError> {
        if self.partial.is_none() {
            let Some(&prefix) = self.inbox.first_chunk::<PREFIX_BYTES>() else {
                return Ok(Step::Read);
            };
            let length = self.check(prefix)?;
            self.inbox.advance(PREFIX_BYTES);
            self.partial = Some(Partial::new(length));
        }
        let Some(partial) = self.partial.as_mut() else {
            return Ok(Step::Read);
        };
        let take = self.inbox.len().min(partial.granted - partial.body.len());
        if take > 0 {
            partial.body.extend_from_slice(&self.inbox.split_to(take));
        }
        match partial.body.len() {
            filled if filled == partial.length => {
                let whole = self.partial.take().map(|partial| partial.body);
                Ok(Step::Frame(whole.unwrap_or_default()))
            }
            filled if filled == partial.granted => Ok(Step::Reserve(partial.wanted())),
            _ => Ok(Step::Read),
        }
    }

    fn check(&self, prefix: [u8; PREFIX_BYTES]) -> Result<usize, FrameError> {
        let signed = i32::from_be_bytes(prefix);
        let length = usize::try_from(signed).map_err(|_| FrameError::Negative(signed))?;
        if length > self.length_max {
            let looks_like = Foreign::of(prefix);
            return Err(FrameError::TooLong {
                length,
                max: self.length_max,
                bound: self.bound,
                looks_like,
            });
        }
        Ok(length)
    }

    /// Memory that [`Step::Reserve`] asked for has been granted.
    pub(crate) fn grant(&mut self, bytes: usize) {
        if let Some(partial) = &mut self.partial {
            partial.granted += bytes;
            partial.body.reserve(partial.granted - partial.body.len());
        }
    }

    /// Whether part of a frame has arrived and the rest has not.
    pub(crate) fn is_inside_frame(&self) -> bool {
        self.partial.is_some() || !self.inbox.is_empty()
    }

    /// Frees the buffer if nothing is in it. To be called before a wait of unknown length.
    pub(crate) fn release(&mut self) {
        if self.inbox.is_empty() && self.inbox.capacity() > 0 {
            self.inbox = BytesMut::new();
        }
    }

    /// Where the next bytes go: a frame's own buffer up to what was granted, else the inbox.
    pub(crate) fn space(&mut self) -> Limit<&mut BytesMut> {
        match &mut self.partial {
            Some(partial) => {
                let room = partial.granted - partial.body.len();
                (&mut partial.body).limit(room)
            }
            None => {
                self.inbox.reserve(INBOX_BYTES);
                let room = INBOX_BYTES.min(self.inbox.capacity() - self.inbox.len());
                (&mut self.inbox).limit(room)
            }
        }
    }

    /// Bytes of heap that are held now.
    #[cfg(test)]
    pub(crate) fn held_bytes(&self) -> usize {
        let body = self
            .partial
            .as_ref()
            .map_or(0, |partial| partial.body.capacity());
        self.inbox.capacity() + body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 100 * 1024 * 1024;

    /// Feeds `bytes` in pieces of at most `piece`, granting everything; the frames that came out.
    fn feed(reader: &mut FrameReader, mut bytes: &[u8], piece: usize) -> Vec<BytesMut> {
        let mut frames = Vec::new();
        loop {
            match reader.step().expect("legal frames") {
                Step::Frame(frame) => frames.push(frame),
                Step::Reserve(more) => reader.grant(more),
                Step::Read if bytes.is_empty() => return frames,
                Step::Read => {
                    let mut space = reader.space();
                    let n = piece.min(bytes.len()).min(space.remaining_mut());
                    assert!(n > 0, "a read always has room");
                    space.put_slice(&bytes[..n]);
                    bytes = &bytes[n..];
                }
            }
        }
    }

    fn framed(bodies: &[Vec<u8>]) -> Vec<u8> {
        let mut wire = Vec::new();
        for body in bodies {
            wire.extend_from_slice(&u32::try_from(body.len()).expect("small").to_be_bytes());
            wire.extend_from_slice(body);
        }
        wire
    }

    #[test]
    fn frames_come_out_whole_however_the_bytes_are_cut() {
        let sizes = [
            0, 1, 4, 5_000, 16_379, 16_380, 16_381, 70_000, 2_097_152, 5_000_001,
        ];
        let bodies: Vec<Vec<u8>> = sizes
            .iter()
            .map(|&n| (0..n).map(|i| (i % 251) as u8).collect())
            .collect();
        let wire = framed(&bodies);
        for piece in [977, 16_384, usize::MAX] {
            let mut reader = FrameReader::new(MAX);
            let frames = feed(&mut reader, &wire, piece);
            assert_eq!(frames.len(), bodies.len());
            for (frame, body) in frames.iter().zip(&bodies) {
                assert_eq!(&frame[..], &body[..]);
            }
            assert!(!reader.is_inside_frame());
        }
    }

    #[test]
    fn an_ordinary_frame_gets_its_buffer_once_and_of_its_size() {
        let mut reader = FrameReader::new(MAX);
        let mut frames = feed(&mut reader, &framed(&[vec![7; 1_000_000]]), usize::MAX);
        let frame = frames.pop().expect("one frame");
        assert!(frame.capacity() < 1_000_000 + 64, "{}", frame.capacity());
    }

    #[test]
    fn a_frame_owns_its_buffer() {
        let mut reader = FrameReader::new(MAX);
        let frames = feed(
            &mut reader,
            &framed(&[vec![1; 10], vec![2; 10]]),
            usize::MAX,
        );
        for frame in frames {
            assert!(frame.freeze().try_into_mut().is_ok());
        }
    }

    #[test]
    fn a_length_alone_costs_little_memory() {
        let mut reader = FrameReader::new(MAX);
        let lie = u32::try_from(MAX).expect("fits").to_be_bytes();
        assert!(feed(&mut reader, &lie, usize::MAX).is_empty());
        assert!(reader.held_bytes() <= EAGER_FRAME_BYTES + INBOX_BYTES);
        assert!(reader.is_inside_frame());
    }

    #[test]
    fn an_idle_reader_holds_nothing() {
        let mut reader = FrameReader::new(MAX);
        assert_eq!(
            feed(&mut reader, &framed(&[vec![1; 100]]), usize::MAX).len(),
            1
        );
        reader.release();
        assert_eq!(reader.held_bytes(), 0);
    }

    #[test]
    fn a_stranger_sends_small_frames_and_keeps_what_it_has_sent() {
        let mut reader = FrameReader::before_authentication();
        let large = vec![1; UNAUTHENTICATED_BYTES_MAX + 1];
        reader.space().put_slice(&framed(&[vec![2; 10]]));
        reader.space().put_slice(&framed(&[large])[..100]);
        assert!(matches!(reader.step(), Ok(Step::Reserve(_))));
        reader.grant(10);
        assert!(matches!(reader.step(), Ok(Step::Frame(_))));
        let refused = reader.step().expect_err("too long for a stranger");
        assert!(refused.to_string().contains("before authentication"));
        reader.allow(MAX);
        assert!(matches!(reader.step(), Ok(Step::Reserve(_))));
    }

    #[test]
    fn illegal_lengths_are_named() {
        let error_of = |prefix: [u8; 4]| {
            let mut reader = FrameReader::new(MAX);
            reader.space().put_slice(&prefix);
            reader.step().expect_err("illegal")
        };
        assert_eq!(error_of((-1_i32).to_be_bytes()), FrameError::Negative(-1));
        let long = error_of(200_000_000_u32.to_be_bytes());
        assert_eq!(long.code(), "frame_too_long");
        assert!(
            long.to_string()
                .contains("socket.request.max.bytes=104857600"),
            "{long}"
        );
        assert!(error_of(*b"GET ").to_string().contains("HTTP"));
        assert!(error_of([0x16, 3, 1, 2]).to_string().contains("TLS"));
    }
}
