//! Produce requests, whose records become unique bytes without a copy.

use bytes::{Bytes, BytesMut};
use kafka_protocol::{
    messages::{ProduceRequest, TopicName, TransactionalId, produce_request::TopicProduceData},
    protocol::StrBytes,
};

use crate::request::{MalformedRequest, Request, decode};

/// Where one record set stands in the body.
struct Place {
    start: usize,
    len: usize,
}

/// Reads a Produce request and takes its record sets out of the body, by topic and partition in
/// the request's order; a null set is empty. The message's own `records` are all none.
///
/// The sets are disjoint parts of the frame's memory, so that offsets can be written into them in
/// place. A frame that shares its memory with other frames is copied first.
///
/// # Errors
/// [`MalformedRequest::Body`].
pub fn split_produce(
    request: Request,
) -> Result<(ProduceRequest, Vec<Vec<BytesMut>>), MalformedRequest> {
    let message: ProduceRequest = decode(&request)?;
    let body = request.body;
    let (message, places) = detach(message, &body);
    let mut rest = body
        .try_into_mut()
        .unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    // Record sets stand in the body in the order of the message, each after the one before.
    let mut at = 0;
    let mut cut = |place: &Place| {
        if place.len == 0 {
            return BytesMut::new();
        }
        let _between = rest.split_to(place.start - at);
        at = place.start + place.len;
        rest.split_to(place.len)
    };
    let records = places
        .iter()
        .map(|topic| topic.iter().map(&mut cut).collect())
        .collect();
    Ok((message, records))
}

/// Makes the message independent of the body: copies its names, drops what is unknown, and notes
/// where its records are.
fn detach(mut message: ProduceRequest, body: &Bytes) -> (ProduceRequest, Vec<Vec<Place>>) {
    message.unknown_tagged_fields.clear();
    message.transactional_id = message
        .transactional_id
        .map(|id| TransactionalId(copy(&id)));
    let detach_topic = |topic: &mut TopicProduceData| {
        topic.unknown_tagged_fields.clear();
        topic.name = TopicName(copy(&topic.name));
        let detach_partition = |partition: &mut _| take_records(partition, body);
        topic
            .partition_data
            .iter_mut()
            .map(detach_partition)
            .collect()
    };
    let places = message.topic_data.iter_mut().map(detach_topic).collect();
    (message, places)
}

fn take_records(
    partition: &mut kafka_protocol::messages::produce_request::PartitionProduceData,
    body: &Bytes,
) -> Place {
    partition.unknown_tagged_fields.clear();
    let records = partition.records.take().unwrap_or_default();
    // The codec cuts byte fields out of the body, so their addresses tell where they stand.
    let start = records.as_ptr().addr().wrapping_sub(body.as_ptr().addr());
    Place {
        start,
        len: records.len(),
    }
}

fn copy(text: &StrBytes) -> StrBytes {
    StrBytes::from_string(text.as_str().to_owned())
}

#[cfg(test)]
mod tests;
