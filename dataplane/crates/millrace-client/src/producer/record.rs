//! What users hand in, and what they get back.

/// A record to send. It borrows what it is made of: [`Producer::send`](crate::Producer::send)
/// copies it once, into its batch.
///
/// ```
/// use millrace_client::ProducerRecord;
///
/// let headers = [("source", Some(&b"web"[..]))];
/// let record = ProducerRecord::to("orders").key(b"42").value(b"paid").headers(&headers);
/// # let _ = record;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProducerRecord<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition; if `None`, the partitioner chooses.
    pub partition: Option<i32>,
    /// Milliseconds since 1970; if `None`, the time of `send`.
    pub timestamp_ms: Option<i64>,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// Headers in order; keys may repeat.
    pub headers: &'a [(&'a str, Option<&'a [u8]>)],
}

impl<'a> ProducerRecord<'a> {
    /// A record for a topic, without key and value.
    #[must_use]
    pub fn to(topic: &'a str) -> Self {
        Self {
            topic,
            partition: None,
            timestamp_ms: None,
            key: None,
            value: None,
            headers: &[],
        }
    }

    /// Sets the key. Records with the same key go to the same partition.
    #[must_use]
    pub fn key(mut self, key: &'a [u8]) -> Self {
        self.key = Some(key);
        self
    }

    /// Sets the value.
    #[must_use]
    pub fn value(mut self, value: &'a [u8]) -> Self {
        self.value = Some(value);
        self
    }

    /// Sets the headers.
    #[must_use]
    pub fn headers(mut self, headers: &'a [(&'a str, Option<&'a [u8]>)]) -> Self {
        self.headers = headers;
        self
    }

    /// Sets the partition.
    #[must_use]
    pub fn partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// Sets the timestamp, in milliseconds since 1970.
    #[must_use]
    pub fn timestamp_ms(mut self, timestamp_ms: i64) -> Self {
        self.timestamp_ms = Some(timestamp_ms);
        self
    }
}

/// Where a record is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordMetadata {
    /// The partition.
    pub partition: i32,
    /// The offset. `None` with [`Acks::None`](super::Acks::None), and if the broker knew only that an
    /// earlier attempt had stored the record.
    pub offset: Option<i64>,
    /// The record's timestamp in milliseconds since 1970: the broker's where the topic says so.
    pub timestamp_ms: i64,
}
