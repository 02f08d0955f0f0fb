//! Records of a request to the topic.

use std::{collections::HashMap, fmt, marker::PhantomData};

use futures_util::future::join_all;
use millrace_client::{
    Client, Compression, Producer, ProducerConfig, ProducerRecord,
    producer::{Delivery, Partitioning, SendError},
};
use parking_lot::Mutex;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, SeqAccess, Visitor},
};

use crate::{
    encoding::GivenBytes,
    error::RecordsError,
    lane::Topic,
    limits::{
        BODY_BYTES_MAX, PRODUCED_HEADERS_MAX, PRODUCED_RECORDS_MAX, PRODUCER_BATCH_BYTES,
        PRODUCER_LINGER, REQUEST_TIMEOUT,
    },
    record::Decimal,
    tail::ErrorBody,
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    #[serde(deserialize_with = "at_most::<_, _, PRODUCED_RECORDS_MAX>")]
    records: Vec<GivenRecord>,
    #[serde(default)]
    partitioner: GivenPartitioner,
    #[serde(default)]
    compression: GivenCompression,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenRecord {
    #[serde(default)]
    partition: Option<i32>,
    #[serde(default)]
    key: Option<GivenBytes>,
    #[serde(default)]
    value: Option<GivenBytes>,
    #[serde(default, deserialize_with = "at_most::<_, _, PRODUCED_HEADERS_MAX>")]
    headers: Vec<GivenHeader>,
    #[serde(default)]
    timestamp_ms: Option<Decimal>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenHeader {
    name: String,
    #[serde(default)]
    value: Option<GivenBytes>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum GivenPartitioner {
    #[default]
    UniformSticky,
    Sticky,
    RoundRobin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum GivenCompression {
    #[default]
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

/// The answer to a produce request.
#[derive(Debug, Serialize)]
pub struct Produced {
    /// One for each record, in their order.
    results: Vec<ProducedRecord>,
}

#[derive(Debug)]
enum ProducedRecord {
    Stored {
        partition: i32,
        offset: i64,
        timestamp_ms: i64,
    },
    Refused(RecordsError),
}

impl Serialize for ProducedRecord {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Stored {
            partition: i32,
            offset: Decimal,
            timestamp_ms: Decimal,
        }
        #[derive(Serialize)]
        struct Refused<'a> {
            error: ErrorBody<'a>,
        }
        match self {
            Self::Refused(error) => {
                let error = ErrorBody::new(error);
                Refused { error }.serialize(serializer)
            }
            Self::Stored {
                partition,
                offset,
                timestamp_ms,
            } => Stored {
                partition: *partition,
                offset: Decimal(*offset),
                timestamp_ms: Decimal(*timestamp_ms),
            }
            .serialize(serializer),
        }
    }
}

/// A list that is refused while it is read, not after it has filled the memory.
fn at_most<'de, D, T, const MAX: usize>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Bounded<T, const MAX: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Bounded<T, MAX> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MAX}")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut items = Vec::new();
            while let Some(item) = list.next_element()? {
                if items.len() == MAX {
                    return Err(A::Error::custom(format!("more than {MAX} in one list")));
                }
                items.push(item);
            }
            Ok(items)
        }
    }

    deserializer.deserialize_seq(Bounded::<T, MAX>(PhantomData))
}

/// A record whose bytes are decoded.
#[derive(Debug)]
struct Decoded {
    partition: Option<i32>,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
    timestamp_ms: Option<i64>,
}

impl GivenRecord {
    fn decode(self) -> Result<Decoded, String> {
        let bytes = |what: &str, bytes: Option<GivenBytes>| {
            let decoded = bytes.map(GivenBytes::decode).transpose();
            decoded.map_err(|reason| format!("{what}: {reason}"))
        };
        let header = |header: GivenHeader| {
            let value = bytes(&format!("the header {:?}", header.name), header.value)?;
            Ok((header.name, value))
        };
        if self.timestamp_ms.is_some_and(|time| time.0 < 0) {
            return Err("timestamp_ms: it must not be negative".to_owned());
        }
        Ok(Decoded {
            partition: self.partition,
            key: bytes("key", self.key)?,
            value: bytes("value", self.value)?,
            headers: self
                .headers
                .into_iter()
                .map(header)
                .collect::<Result<_, String>>()?,
            timestamp_ms: self.timestamp_ms.map(|time| time.0),
        })
    }
}

/// What is shared by all produce requests: one producer for each pair of settings, so that requests
/// do not each take an id from the cluster. They are made when they are first needed.
#[derive(Debug, Default)]
pub(crate) struct Producers(Mutex<HashMap<(GivenPartitioner, GivenCompression), Producer>>);

/// Topics of the control plane's smoke check, which comes over HTTP as any other request.
const SMOKE_TOPIC_PREFIX: &str = "__millrace_smoke_";

/// Whether the topic is one that only the cluster itself writes to.
fn is_of_cluster(topic: &str) -> bool {
    topic.starts_with("__") && !topic.starts_with(SMOKE_TOPIC_PREFIX)
}

impl Producers {
    /// Sends the records of a body, and waits until each is stored or has failed.
    pub(crate) async fn produce(
        &self,
        client: &Client,
        topic: &Topic,
        body: &[u8],
    ) -> Result<Produced, RecordsError> {
        if topic.is_internal || is_of_cluster(&topic.name) {
            let name = &topic.name;
            return Err(RecordsError::invalid(format!(
                "{name} is written by the cluster itself; choose another topic"
            )));
        }
        let body: Body = serde_json::from_slice(body).map_err(|error| {
            RecordsError::invalid(format!("the body is not as expected: {error}"))
        })?;
        if body.records.is_empty() {
            return Err(RecordsError::invalid("there is no record in the list"));
        }
        let key = (body.partitioner, body.compression);
        let records = body.records.into_iter().enumerate();
        let records = records
            .map(|(nth, record)| {
                let decoded = record.decode();
                decoded.map_err(|why| RecordsError::invalid(format!("records[{nth}].{why}")))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let producer = self.producer(client, key)?;
        let mut sent = Vec::with_capacity(records.len());
        for record in records {
            sent.push(send(&producer, topic, &record).await);
        }
        if sent
            .iter()
            .any(|one| matches!(one, Err(SendError::Failed(_))))
        {
            // The next request makes another one.
            self.0.lock().remove(&key);
        }
        Ok(Produced {
            results: join_all(sent.into_iter().map(stored)).await,
        })
    }

    fn producer(
        &self,
        client: &Client,
        key: (GivenPartitioner, GivenCompression),
    ) -> Result<Producer, RecordsError> {
        let mut producers = self.0.lock();
        if let Some(producer) = producers.get(&key) {
            return Ok(producer.clone());
        }
        let producer = Producer::new(client, config(key))
            .map_err(|reason| RecordsError::invalid(reason.to_string()))?;
        producers.insert(key, producer.clone());
        Ok(producer)
    }
}

fn config((partitioner, compression): (GivenPartitioner, GivenCompression)) -> ProducerConfig {
    let mut config = ProducerConfig::default();
    config.partitioning = match partitioner {
        GivenPartitioner::UniformSticky => Partitioning::UniformSticky,
        GivenPartitioner::Sticky => Partitioning::Sticky,
        GivenPartitioner::RoundRobin => Partitioning::RoundRobin,
    };
    config.compression = match compression {
        GivenCompression::None => Compression::None,
        GivenCompression::Gzip => Compression::Gzip,
        GivenCompression::Snappy => Compression::Snappy,
        GivenCompression::Lz4 => Compression::Lz4,
        GivenCompression::Zstd => Compression::Zstd,
    };
    config.batch_size = PRODUCER_BATCH_BYTES;
    config.linger = PRODUCER_LINGER;
    // The topic's own bound decides.
    config.max_request_size = 2 * BODY_BYTES_MAX;
    config.buffer_memory = 4 * BODY_BYTES_MAX;
    config.max_block = REQUEST_TIMEOUT;
    config.delivery_timeout = PRODUCER_LINGER + 2 * REQUEST_TIMEOUT;
    config
}

async fn send(
    producer: &Producer,
    topic: &Topic,
    record: &Decoded,
) -> Result<(Delivery, i32), SendError> {
    let headers: Vec<_> = record
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_deref()))
        .collect();
    let mut given = ProducerRecord::to(&topic.name).headers(&headers);
    given.partition = record.partition;
    given.key = record.key.as_deref();
    given.value = record.value.as_deref();
    given.timestamp_ms = record.timestamp_ms;
    let delivery = producer.send(given).await?;
    let partition = delivery.partition();
    Ok((delivery, partition))
}

async fn stored(sent: Result<(Delivery, i32), SendError>) -> ProducedRecord {
    let (delivery, partition) = match sent {
        Ok(sent) => sent,
        Err(error) => return ProducedRecord::Refused(error.into()),
    };
    match delivery.await {
        Ok(stored) => match stored.offset {
            Some(offset) => ProducedRecord::Stored {
                partition,
                offset,
                timestamp_ms: stored.timestamp_ms,
            },
            None => ProducedRecord::Refused(RecordsError::offset_unknown()),
        },
        Err(error) => ProducedRecord::Refused(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<Body, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn the_shortest_record_is_a_tombstone_without_a_key() {
        let body = parse(r#"{"records":[{}]}"#).expect("legal");
        assert_eq!(body.partitioner, GivenPartitioner::UniformSticky);
        assert_eq!(body.compression, GivenCompression::None);
        let record = body.records.into_iter().next().expect("one");
        let record = record.decode().expect("legal");
        assert!(record.key.is_none() && record.value.is_none() && record.partition.is_none());
    }

    #[test]
    fn lists_are_bounded_while_they_are_read() {
        let list = |item: &str, count: usize| vec![item; count].join(",");
        let records = |count| format!(r#"{{"records":[{}]}}"#, list("{}", count));
        assert!(parse(&records(PRODUCED_RECORDS_MAX)).is_ok());
        let error = parse(&records(PRODUCED_RECORDS_MAX + 1)).expect_err("too many");
        assert!(error.contains("more than 1000"), "{error}");
        let headers = list(r#"{"name":"h"}"#, PRODUCED_HEADERS_MAX + 1);
        let error = parse(&format!(r#"{{"records":[{{"headers":[{headers}]}}]}}"#));
        assert!(error.expect_err("too many").contains("more than 100"));
    }

    #[test]
    fn what_is_misspelt_is_an_error() {
        for json in [
            r#"{"records":[{"vale":null}]}"#,
            r#"{"records":[],"acks":1}"#,
            r#"{"records":[{"key":"text"}]}"#,
            r#"{"records":[{"timestamp_ms":1}]}"#,
            r#"{"records":[],"partitioner":"random"}"#,
            r#"{"records":[],"compression":"brotli"}"#,
            r"{}",
        ] {
            assert!(parse(json).is_err(), "{json}");
        }
        let body = parse(r#"{"records":[{"timestamp_ms":"-1"}]}"#).expect("the shape");
        let record = body.records.into_iter().next().expect("one");
        assert!(
            record
                .decode()
                .expect_err("negative")
                .contains("timestamp_ms")
        );
    }
}
