//! The value of an offset record: versions 0 to 4 are read, 3 is written, and 1 where the client
//! said itself when the offset expires, as Kafka does.
//!
//! Version 3 is: offset (64 bits), leader epoch (32), metadata (text), commit time (64). Version 1
//! has no leader epoch and ends with the time of expiry (64).

use bytes::{BufMut, Bytes, BytesMut};

use super::{
    MalformedRecord,
    cursor::{Cursor, Form, put_text},
};
use crate::messages::CommittedOffset;

const VERSION: i16 = 3;
const FIRST_WITH_LEADER_EPOCH: i16 = 3;
/// Only version 1 says when the offset expires.
const ONLY_WITH_EXPIRY: i16 = 1;
const FIRST_FLEXIBLE: i16 = 4;
const LAST: i16 = 4;

pub(super) fn encode(committed: &CommittedOffset) -> Bytes {
    let mut out = BytesMut::with_capacity(28 + committed.metadata.len());
    let version = if committed.expire_ms.is_some() {
        ONLY_WITH_EXPIRY
    } else {
        VERSION
    };
    out.put_i16(version);
    out.put_i64(committed.offset);
    if version >= FIRST_WITH_LEADER_EPOCH {
        out.put_i32(committed.leader_epoch);
    }
    put_text(&mut out, Some(&committed.metadata));
    out.put_i64(committed.commit_ms);
    if let Some(expire_ms) = committed.expire_ms {
        out.put_i64(expire_ms);
    }
    out.freeze()
}

pub(super) fn decode(bytes: &[u8]) -> Result<CommittedOffset, MalformedRecord> {
    let mut cursor = Cursor::new(bytes);
    let version = cursor.i16()?;
    if !(0..=LAST).contains(&version) {
        return Err(MalformedRecord::Version(version));
    }
    let form = if version >= FIRST_FLEXIBLE {
        Form::Compact
    } else {
        Form::Fixed
    };
    let offset = cursor.i64()?;
    let leader_epoch = if version >= FIRST_WITH_LEADER_EPOCH {
        cursor.i32()?
    } else {
        -1
    };
    let metadata = cursor.text(form)?;
    let commit_ms = cursor.i64()?;
    let expire_ms = if version == ONLY_WITH_EXPIRY {
        Some(cursor.i64()?)
    } else {
        None
    };
    cursor.tagged_fields(form)?;
    Ok(CommittedOffset {
        offset,
        leader_epoch,
        metadata,
        commit_ms,
        expire_ms: expire_ms.filter(|&at| at >= 0),
    })
}
