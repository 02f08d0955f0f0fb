//! A record as JSON. 64-bit numbers are decimal strings: JavaScript's numbers are exact up to 2^53
//! only.

use millrace_client::consumer::RecordRef;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{
    encoding::{Showing, ShownBytes},
    limits::{HEADER_BYTES, SHOWN_HEADERS_MAX},
};

/// A 64-bit number that is written as a decimal string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Decimal(pub(crate) i64);

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = text
            .parse()
            .map_err(|_| D::Error::custom(format!("{text:?} is no decimal number of 64 bits")))?;
        Ok(Self(number))
    }
}

/// A record of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ShownRecord {
    pub(crate) partition: i32,
    pub(crate) offset: Decimal,
    pub(crate) timestamp_ms: Decimal,
    timestamp_type: &'static str,
    key: Option<ShownBytes>,
    value: Option<ShownBytes>,
    tombstone: bool,
    headers: Vec<ShownHeader>,
    /// There only where some are left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    headers_truncated: bool,
    size_bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct ShownHeader {
    name: String,
    value: Option<ShownBytes>,
}

/// Where a record stands in the order of answers: by time, then by partition and offset.
pub(crate) type Rank = (i64, i32, i64);

impl ShownRecord {
    pub(crate) fn new(
        partition: i32,
        record: &RecordRef<'_>,
        has_log_append_time: bool,
        showing: Showing,
    ) -> Self {
        let header = |(name, value): (&[u8], Option<&[u8]>)| ShownHeader {
            name: String::from_utf8_lossy(&name[..name.len().min(showing.bytes_max)]).into_owned(),
            value: value.map(|value| showing.show(value)),
        };
        let mut headers = record.headers();
        Self {
            partition,
            offset: Decimal(record.offset),
            timestamp_ms: Decimal(record.timestamp_ms),
            timestamp_type: if has_log_append_time {
                "log_append_time"
            } else {
                "create_time"
            },
            key: record.key.map(|key| showing.show(key)),
            value: record.value.map(|value| showing.show(value)),
            tombstone: record.value.is_none(),
            headers: headers
                .by_ref()
                .take(SHOWN_HEADERS_MAX)
                .map(header)
                .collect(),
            headers_truncated: headers.next().is_some(),
            size_bytes: size_bytes(record),
        }
    }

    pub(crate) fn rank(&self) -> Rank {
        (self.timestamp_ms.0, self.partition, self.offset.0)
    }

    /// What its key, value and headers take in the answer, and in memory at most.
    pub(crate) fn written_bytes(&self) -> usize {
        let written =
            |bytes: &Option<ShownBytes>| bytes.as_ref().map_or(0, ShownBytes::written_bytes);
        let header =
            |header: &ShownHeader| HEADER_BYTES + header.name.len() + written(&header.value);
        let headers: usize = self.headers.iter().map(header).sum();
        written(&self.key) + written(&self.value) + headers
    }
}

/// Bytes of key, value and headers.
pub(crate) fn size_bytes(record: &RecordRef<'_>) -> usize {
    let length = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
    let headers = record
        .headers()
        .map(|(name, value)| name.len() + length(value));
    length(record.key) + length(record.value) + headers.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_what_javascript_can_count_are_exact() {
        for number in [i64::MIN, -1, 0, 9_007_199_254_740_993, i64::MAX] {
            let text = serde_json::to_string(&Decimal(number)).expect("serializable");
            assert_eq!(text, format!("\"{number}\""));
            let read: Decimal = serde_json::from_str(&text).expect("a number");
            assert_eq!(read, Decimal(number));
        }
        for wrong in ["1", "\"\"", "\"1.5\"", "\"9223372036854775808\""] {
            assert!(serde_json::from_str::<Decimal>(wrong).is_err(), "{wrong}");
        }
    }
}
