//! Parses the topics of a consumer's subscription and the partitions of its assignment.

use millrace_model::{TopicName, TopicPartition};

use crate::records::{Cursor, Form, MalformedRecord};

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

#[cfg(test)]
mod tests {
    use super::assigned;

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
    fn an_assignment_that_cannot_be_read_names_nothing() {
        assert_eq!(names(b"", 10), []);
        assert_eq!(names(b"what another protocol writes", 10), []);
        for cut in 0..ASSIGNMENT.len() - 4 {
            assert_eq!(names(&ASSIGNMENT[..cut], 10), [], "{cut}");
        }
    }
}
