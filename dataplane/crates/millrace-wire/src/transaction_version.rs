//! The transaction version of markers. Kafka's WriteTxnMarkers has no field for it in the version that the codec knows; brokers
//! of this cluster tell it each other in a tagged field, which others ignore.

use bytes::Bytes;
use kafka_protocol::messages::write_txn_markers_request::WritableTxnMarker;

/// Far above the tags that Kafka gives out, which are counted from 0.
const TAG: i32 = 10_000;

/// Tells the version of the transaction protocol that a marker is written in.
#[must_use]
pub fn with_transaction_version(marker: WritableTxnMarker, version: i16) -> WritableTxnMarker {
    let version = Bytes::copy_from_slice(&version.to_be_bytes());
    marker.with_unknown_tagged_field(TAG, version)
}

/// The version of the transaction protocol that a marker is written in; 0 where it is not told.
#[must_use]
pub fn transaction_version_of(marker: &WritableTxnMarker) -> i16 {
    let version = marker.unknown_tagged_fields.get(&TAG);
    let version = version.and_then(|version| version[..].try_into().ok());
    version.map_or(0, i16::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use kafka_protocol::protocol::{Decodable, Encodable};

    use super::*;

    #[test]
    fn a_version_is_told_and_read() {
        for version in [0, 1, 2, i16::MAX] {
            let marker = with_transaction_version(WritableTxnMarker::default(), version);
            let mut bytes = BytesMut::new();
            marker.encode(&mut bytes, 1).expect("encodes");
            let read = WritableTxnMarker::decode(&mut bytes.freeze(), 1).expect("sound");
            assert_eq!(transaction_version_of(&read), version);
        }
        assert_eq!(transaction_version_of(&WritableTxnMarker::default()), 0);
        let strange = Bytes::from_static(b"2");
        let strange = WritableTxnMarker::default().with_unknown_tagged_field(TAG, strange);
        assert_eq!(transaction_version_of(&strange), 0);
    }
}
