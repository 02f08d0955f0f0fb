//! Requests as large as the broker takes, each with one small batch: what stays of them is a thousandth.

use std::{io, net::SocketAddr};

use bytes::Bytes;
use millrace_bench::producer::{BatchTemplate, ProduceAnswer, ProduceFrame, Stamp};

use crate::wire::Wire;

/// What the broker takes at most (`socket.request.max.bytes`).
const FRAME_BYTES: usize = 100 << 20;
/// The batch: larger than what the broker copies because of its size alone.
const RECORD_BYTES: usize = 8 << 10;

/// Sends so many; returns how many were acknowledged.
pub(crate) fn send(address: SocketAddr, topic: &str, count: usize) -> io::Result<usize> {
    let (request, padding) = request(topic);
    let mut wire = Wire::connect(address)?;
    for _ in 0..count {
        let answer = wire.exchange(&[&request, &padding])?;
        acknowledged(answer)?;
    }
    Ok(count)
}

/// What an answer to Produce says of its only partition.
pub(crate) fn acknowledged(answer: Bytes) -> io::Result<()> {
    let answer = ProduceAnswer::parse(answer).map_err(io::Error::other)?;
    match &answer.partitions[..] {
        [partition] if partition.error_code == 0 => Ok(()),
        other => Err(io::Error::other(format!("refused: {other:?}"))),
    }
}

/// One Produce request of one batch, its length in front.
pub(crate) fn produce(topic: &str, record_bytes: usize) -> Vec<u8> {
    let template = BatchTemplate::random(record_bytes, 2 * record_bytes, 7);
    let stamp = Stamp {
        timestamp_ms: 1_700_000_000_000,
        producer: None,
        base_sequence: -1,
    };
    let mut frame = ProduceFrame::new("memory", topic);
    frame.begin(1);
    let records = template.records(1);
    frame.push(0, &template.header(1, &stamp), records.len());
    let mut slices = Vec::new();
    frame.slices(std::iter::once(records), 0, &mut slices);
    slices.iter().flat_map(|slice| slice.to_vec()).collect()
}

/// A request and what follows its message in the frame, which every broker ignores.
fn request(topic: &str) -> (Vec<u8>, Vec<u8>) {
    let mut request = produce(topic, RECORD_BYTES);
    let padding = vec![0xa5; FRAME_BYTES + 4 - request.len()];
    let length = u32::try_from(FRAME_BYTES).expect("100 MiB");
    request[..4].copy_from_slice(&length.to_be_bytes());
    (request, padding)
}
