//! The compressions of the records in a batch.

use std::{
    borrow::Cow,
    cell::RefCell,
    io::{self, Cursor, Read, Write},
};

use crate::error::InvalidBatch;

/// The most bytes that one batch may decompress to. Far above what producers build (their
/// `batch.size` counts decompressed bytes), far below what a bomb needs.
pub const DECOMPRESSED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The largest window that a zstd frame may ask for, as a power of two: no larger than what may
/// come out. Frames that need more exist only at the highest levels with far larger inputs.
const ZSTD_WINDOW_LOG_MAX: u32 = DECOMPRESSED_BYTES_MAX.ilog2();

/// The window of a compression at a level that was asked for, as a power of two. The tables of the highest levels grow with
/// it: to about 20 MiB with this one, and to hundreds of mebibytes without a bound.
const ZSTD_LEVEL_WINDOW_LOG: u32 = 20;

/// The highest level of gzip.
const GZIP_LEVEL_MAX: u32 = 9;

/// Snappy's blocks inside the framing that Kafka's Java client writes.
const SNAPPY_BLOCK_BYTES: usize = 32 * 1024;
/// What that framing begins with: its name, version 1, compatible with version 1.
const SNAPPY_MAGIC: &[u8; 16] = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01";

/// How the records of a batch are compressed; the numbers are those of the attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None = 0,
    /// gzip.
    Gzip = 1,
    /// snappy in Java's framing, or raw.
    Snappy = 2,
    /// LZ4 frame format.
    Lz4 = 3,
    /// Zstandard; clients need Produce 7 and Fetch 10 (KIP-110).
    Zstd = 4,
}

impl Compression {
    /// The compression with this number in the attributes.
    ///
    /// # Errors
    /// [`InvalidBatch::UnknownCompression`].
    pub fn from_id(id: u8) -> Result<Self, InvalidBatch> {
        match id {
            0 => Ok(Self::None),
            1 => Ok(Self::Gzip),
            2 => Ok(Self::Snappy),
            3 => Ok(Self::Lz4),
            4 => Ok(Self::Zstd),
            _ => Err(InvalidBatch::UnknownCompression(id)),
        }
    }

    /// Decompresses to at most `bytes_max`, which is at most [`DECOMPRESSED_BYTES_MAX`]; without
    /// compression, borrows the bytes, however many.
    ///
    /// # Errors
    /// [`InvalidBatch::Decompress`] and [`InvalidBatch::DecompressedTooLarge`].
    pub fn decompress(self, bytes: &[u8], bytes_max: usize) -> Result<Cow<'_, [u8]>, InvalidBatch> {
        let bytes_max = bytes_max.min(DECOMPRESSED_BYTES_MAX);
        let decompressed = match self {
            Self::None => return Ok(Cow::Borrowed(bytes)),
            Self::Gzip => read_bounded(flate2::read::MultiGzDecoder::new(bytes), bytes_max),
            Self::Snappy => unsnap(bytes, bytes_max),
            Self::Lz4 => {
                let decoder = lz4::Decoder::new(bytes);
                read_bounded(decoder.map_err(|_| InvalidBatch::Decompress)?, bytes_max)
            }
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::new(bytes)
                    .map_err(|_| InvalidBatch::Decompress)?;
                let bounded = decoder.window_log_max(ZSTD_WINDOW_LOG_MAX);
                bounded.map_err(|_| InvalidBatch::Decompress)?;
                read_bounded(decoder, bytes_max)
            }
        };
        decompressed.map(Cow::Owned)
    }

    /// Compresses as Kafka's Java client does, behind what `out` already holds; at the default level where none is given.
    ///
    /// # Errors
    /// The level is not one of the compression.
    pub fn compress_onto(
        self,
        bytes: &[u8],
        mut out: Vec<u8>,
        level: Option<i32>,
    ) -> io::Result<Vec<u8>> {
        // gzip and LZ4 have no negative levels.
        let positive = level.and_then(|level| u32::try_from(level).ok());
        match self {
            Self::None => {
                out.extend_from_slice(bytes);
                Ok(out)
            }
            Self::Gzip => {
                let level = positive.map_or_else(flate2::Compression::default, |level| {
                    flate2::Compression::new(level.min(GZIP_LEVEL_MAX))
                });
                let mut encoder = flate2::write::GzEncoder::new(out, level);
                encoder.write_all(bytes)?;
                encoder.finish()
            }
            Self::Snappy => snap_framed(bytes, out),
            Self::Lz4 => {
                let mut encoder = lz4::EncoderBuilder::new()
                    .block_mode(lz4::BlockMode::Independent)
                    .level(positive.unwrap_or(0))
                    .build(out)?;
                encoder.write_all(bytes)?;
                let (out, result) = encoder.finish();
                result.map(|()| out)
            }
            Self::Zstd => match level {
                None | Some(zstd::DEFAULT_COMPRESSION_LEVEL) => zstd_onto(bytes, out),
                Some(level) => {
                    let mut context = zstd::bulk::Compressor::new(level)?;
                    let window = zstd::zstd_safe::CParameter::WindowLog(ZSTD_LEVEL_WINDOW_LOG);
                    context.set_parameter(window)?;
                    zstd_with(&mut context, bytes, out)
                }
            },
        }
    }
}

thread_local! {
    /// A context has tables of up to a megabyte, whose creation costs more than the compression of a
    /// small batch. Bounded by the threads that compress.
    static ZSTD: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
}

fn zstd_onto(bytes: &[u8], out: Vec<u8>) -> io::Result<Vec<u8>> {
    ZSTD.with_borrow_mut(|context| {
        let context = match context {
            Some(context) => context,
            None => context.insert(zstd::bulk::Compressor::new(
                zstd::DEFAULT_COMPRESSION_LEVEL,
            )?),
        };
        zstd_with(context, bytes, out)
    })
}

fn zstd_with(
    context: &mut zstd::bulk::Compressor<'_>,
    bytes: &[u8],
    mut out: Vec<u8>,
) -> io::Result<Vec<u8>> {
    let start = out.len();
    out.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
    let mut cursor = Cursor::new(out);
    cursor.set_position(start as u64);
    context.compress_to_buffer(bytes, &mut cursor)?;
    Ok(cursor.into_inner())
}

fn read_bounded(reader: impl Read, bytes_max: usize) -> Result<Vec<u8>, InvalidBatch> {
    let mut out = Vec::new();
    // One byte more than allowed tells "at the bound" from "over it".
    let bound = bytes_max as u64 + 1;
    reader
        .take(bound)
        .read_to_end(&mut out)
        .map_err(|_| InvalidBatch::Decompress)?;
    if out.len() > bytes_max {
        return Err(InvalidBatch::DecompressedTooLarge);
    }
    Ok(out)
}

fn unsnap(bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>, InvalidBatch> {
    let mut out = Vec::new();
    let Some(mut framed) = bytes.strip_prefix(SNAPPY_MAGIC) else {
        unsnap_block(bytes, &mut out, bytes_max)?;
        return Ok(out);
    };
    while !framed.is_empty() {
        let (size, rest) = framed
            .split_first_chunk::<4>()
            .ok_or(InvalidBatch::Decompress)?;
        let size = u32::from_be_bytes(*size) as usize;
        let (block, rest) = rest
            .split_at_checked(size)
            .ok_or(InvalidBatch::Decompress)?;
        unsnap_block(block, &mut out, bytes_max)?;
        framed = rest;
    }
    Ok(out)
}

fn unsnap_block(block: &[u8], out: &mut Vec<u8>, bytes_max: usize) -> Result<(), InvalidBatch> {
    let size = snap::raw::decompress_len(block).map_err(|_| InvalidBatch::Decompress)?;
    let start = out.len();
    // The block's own claim is believed only within the bound and within what snappy can do.
    if start.saturating_add(size) > bytes_max {
        return Err(InvalidBatch::DecompressedTooLarge);
    }
    if size > block.len().saturating_mul(SNAPPY_RATIO_MAX) {
        return Err(InvalidBatch::Decompress);
    }
    out.resize(start + size, 0);
    let written = snap::raw::Decoder::new()
        .decompress(block, out.get_mut(start..).unwrap_or_default())
        .map_err(|_| InvalidBatch::Decompress)?;
    out.truncate(start + written);
    Ok(())
}

/// A copy element has at least 2 bytes and yields at most 64, so no snappy block grows more than
/// 32 times; the rest is margin for the shortest blocks.
const SNAPPY_RATIO_MAX: usize = 64;

fn snap_framed(bytes: &[u8], mut out: Vec<u8>) -> io::Result<Vec<u8>> {
    out.extend_from_slice(SNAPPY_MAGIC);
    for block in bytes.chunks(SNAPPY_BLOCK_BYTES) {
        let packed = snap::raw::Encoder::new()
            .compress_vec(block)
            .map_err(io::Error::other)?;
        let size = u32::try_from(packed.len()).map_err(io::Error::other)?;
        out.extend_from_slice(&size.to_be_bytes());
        out.extend_from_slice(&packed);
    }
    Ok(out)
}
