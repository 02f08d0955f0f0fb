//! Parses the topics of a consumer's subscription and the partitions of its assignment.

use bytes::{BufMut, Bytes, BytesMut};
use millrace_model::{TopicName, TopicPartition};

use crate::records::{Cursor, Form, MalformedRecord, put_text};

/// The topics that a subscription of the `consumer` protocol type names; none where it cannot be
/// read. Layout: version (16 bits), count (32), names (16-bit length each), more that is not read.
pub(crate) fn topics(metadata: &[u8]) -> Option<Vec<String>> {
    let read = || -> Result<Vec<String>, MalformedRecord> {
        let mut cursor = Cursor::new(metadata);
        cursor.i16()?;
        let count = cursor.count(Form::Fixed)?;
        (0..count).map(|_| cursor.text(Form::Fixed)).collect()
    };
    read().ok()
}

/// The partitions that an assignment of the `consumer` protocol type names, `max` at most; none where
/// it cannot be read. Layout: version (16 bits), count (32), per topic its name (16-bit length), a
/// count (32) and that many partition numbers (32 each), more that is not read.
pub(crate) fn assigned(assignment: &[u8], max: usize) -> Vec<TopicPartition> {
    let read = || -> Result<Vec<TopicPartition>, MalformedRecord> {
        let mut cursor = Cursor::new(assignment);
        cursor.i16()?;
        let mut partitions = Vec::new();
        for _ in 0..cursor.count(Form::Fixed)? {
            let topic = TopicName::new(cursor.text(Form::Fixed)?).ok();
            for _ in 0..cursor.count(Form::Fixed)? {
                let partition = u32::try_from(cursor.i32()?).ok();
                if let (Some(topic), Some(partition)) = (&topic, partition)
                    && partitions.len() < max
                {
                    partitions.push(TopicPartition {
                        topic: topic.clone(),
                        partition,
                    });
                }
            }
        }
        Ok(partitions)
    };
    read().unwrap_or_default()
}

/// What a consumer's subscription of the classic protocol says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub(crate) topics: Vec<String>,
    /// What the member has (from version 1).
    pub(crate) owned: Vec<(String, Vec<u32>)>,
    /// From version 3.
    pub(crate) rack_id: Option<String>,
}

impl Subscription {
    /// None where it cannot be read. Layout: version (16 bits), topic names, user data (32-bit length), from
    /// version 1 partitions as in an assignment, from 2 a generation (32), from 3 a rack.
    pub(crate) fn read(metadata: &[u8]) -> Option<Self> {
        let read = || -> Result<Self, MalformedRecord> {
            let mut cursor = Cursor::new(metadata);
            let version = cursor.i16()?;
            let count = cursor.count(Form::Fixed)?;
            let topics = (0..count).map(|_| cursor.text(Form::Fixed));
            let topics = topics.collect::<Result<_, _>>()?;
            user_data(&mut cursor)?;
            let owned = match version {
                1.. => named_partitions(&mut cursor)?,
                _ => Vec::new(),
            };
            if version >= 2 {
                cursor.i32()?;
            }
            let rack_id = match version {
                3.. => cursor.text_or_null(Form::Fixed)?,
                _ => None,
            };
            Ok(Self {
                topics,
                owned,
                rack_id,
            })
        };
        read().ok()
    }
}

/// What a consumer's assignment of the classic protocol says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) partitions: Vec<(String, Vec<u32>)>,
    /// The assignor put something of its own into it.
    pub(crate) has_user_data: bool,
}

/// Reads an assignment; none where it cannot be.
pub(crate) fn read_assignment(assignment: &[u8]) -> Option<Assignment> {
    let read = || -> Result<Assignment, MalformedRecord> {
        let mut cursor = Cursor::new(assignment);
        cursor.i16()?;
        Ok(Assignment {
            partitions: named_partitions(&mut cursor)?,
            has_user_data: user_data(&mut cursor)?,
        })
    };
    read().ok()
}

/// Skips user data; whether there is any.
fn user_data(cursor: &mut Cursor<'_>) -> Result<bool, MalformedRecord> {
    let len = usize::try_from(cursor.i32()?).unwrap_or(0);
    cursor.take(len)?;
    Ok(len > 0)
}

fn named_partitions(cursor: &mut Cursor<'_>) -> Result<Vec<(String, Vec<u32>)>, MalformedRecord> {
    let count = cursor.count(Form::Fixed)?;
    let mut named = Vec::new();
    for _ in 0..count {
        let name = cursor.text(Form::Fixed)?;
        let count = cursor.count(Form::Fixed)?;
        let number = |_| u32::try_from(cursor.i32()?).map_err(|_| MalformedRecord::Illegal);
        named.push((name, (0..count).map(number).collect::<Result<_, _>>()?));
    }
    Ok(named)
}

/// Writes an assignment. Its version is the one of the subscription that it answers.
pub(crate) fn encode_assignment(version: i16, partitions: &[(String, Vec<u32>)]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i16(version);
    out.put_u32(u32::try_from(partitions.len()).unwrap_or(0));
    for (name, numbers) in partitions {
        put_text(&mut out, Some(name));
        out.put_u32(u32::try_from(numbers.len()).unwrap_or(0));
        for number in numbers {
            out.put_u32(*number);
        }
    }
    // No user data.
    out.put_i32(-1);
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::{Subscription, assigned, encode_assignment, read_assignment};

    /// `t` with the partitions 0 and 3, and `u` with 1.
    const ASSIGNMENT: &[u8] = b"\0\0\0\0\0\x02\
        \0\x01t\0\0\0\x02\0\0\0\0\0\0\0\x03\
        \0\x01u\0\0\0\x01\0\0\0\x01\
        \xff\xff\xff\xff";

    fn names(bytes: &[u8], max: usize) -> Vec<(String, u32)> {
        let named = assigned(bytes, max);
        let name = |p: millrace_model::TopicPartition| (p.topic.as_str().to_owned(), p.partition);
        named.into_iter().map(name).collect()
    }

    #[test]
    fn an_assignment_names_its_partitions() {
        let all = [("t", 0), ("t", 3), ("u", 1)].map(|(topic, n)| (topic.to_owned(), n));
        assert_eq!(names(ASSIGNMENT, 10), all);
        assert_eq!(names(ASSIGNMENT, 2), all[..2]);
    }

    #[test]
    fn an_assignment_is_written_as_it_is_read() {
        let partitions = [("t".to_owned(), vec![0, 3]), ("u".to_owned(), vec![1])];
        assert_eq!(encode_assignment(0, &partitions)[..], *ASSIGNMENT);
        let read = read_assignment(ASSIGNMENT).expect("readable");
        assert_eq!(
            (read.partitions, read.has_user_data),
            (partitions.into(), false)
        );
    }

    /// Version 3: `t`, no user data, `t` 0 and 3 owned, generation 7, rack `r`.
    #[test]
    fn a_subscription_says_what_its_member_has() {
        let bytes = b"\0\x03\0\0\0\x01\0\x01t\xff\xff\xff\xff\
            \0\0\0\x01\0\x01t\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\x07\0\x01r";
        let read = Subscription::read(bytes).expect("readable");
        assert_eq!(read.topics, ["t"]);
        assert_eq!(read.owned, [("t".to_owned(), vec![0, 3])]);
        assert_eq!(read.rack_id.as_deref(), Some("r"));
        let old = Subscription::read(&bytes[..13]).map(|read| read.owned);
        assert_eq!(old, None, "version 3 has more");
        let first = [b"\0\0", &bytes[2..13]].concat();
        let first = Subscription::read(&first).expect("version 0");
        assert_eq!((first.topics.len(), first.owned.len()), (1, 0));
    }

    #[test]
    fn an_assignment_that_cannot_be_read_names_nothing() {
        assert_eq!(names(b"", 10), []);
        assert_eq!(names(b"what another protocol writes", 10), []);
        for cut in 0..ASSIGNMENT.len() - 4 {
            assert_eq!(names(&ASSIGNMENT[..cut], 10), [], "{cut}");
        }
    }
}
