//! Topic names and partitions.

use std::{fmt, sync::Arc};

use serde::Serialize;

use crate::limits::TOPIC_NAME_BYTES_MAX;

/// A legal topic name: 1 to 249 of `a-z A-Z 0-9 . _ -`, and neither `.` nor `..`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct TopicName(Arc<str>);

/// Why a text is not a topic name. The text is for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTopicName {
    /// It has no character.
    #[error("a topic name must not be empty")]
    Empty,
    /// It is longer than [`TOPIC_NAME_BYTES_MAX`].
    #[error("a topic name has at most {TOPIC_NAME_BYTES_MAX} characters, this one has {0}")]
    TooLong(usize),
    /// `.` and `..` name folders.
    #[error("a topic name must be neither \".\" nor \"..\"")]
    Dots,
    /// A character outside the allowed set.
    #[error("a topic name has only a-z, A-Z, 0-9, '.', '_' and '-'; this one has {0:?}")]
    Character(char),
}

impl TopicName {
    /// Checks a text against Kafka's rules for topic names.
    ///
    /// # Errors
    /// Says which rule the text breaks.
    pub fn new(name: impl AsRef<str>) -> Result<Self, InvalidTopicName> {
        let name = name.as_ref();
        match name {
            "" => return Err(InvalidTopicName::Empty),
            "." | ".." => return Err(InvalidTopicName::Dots),
            _ if name.len() > TOPIC_NAME_BYTES_MAX => {
                return Err(InvalidTopicName::TooLong(name.chars().count()));
            }
            _ => {}
        }
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        match name.chars().find(|&c| !legal(c)) {
            Some(c) => Err(InvalidTopicName::Character(c)),
            None => Ok(Self(name.into())),
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct TopicPartition {
    /// The topic.
    pub topic: TopicName,
    /// The partition's index, from 0.
    pub partition: u32,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kafkas_rules_hold() {
        for name in [
            "a",
            "A.b_c-9",
            "...",
            "__consumer_offsets",
            &"x".repeat(249),
        ] {
            assert_eq!(TopicName::new(name).expect("legal").as_str(), name);
        }
        assert_eq!(TopicName::new(""), Err(InvalidTopicName::Empty));
        assert_eq!(TopicName::new(".."), Err(InvalidTopicName::Dots));
        assert_eq!(
            TopicName::new("x".repeat(250)),
            Err(InvalidTopicName::TooLong(250))
        );
        assert_eq!(TopicName::new("a b"), Err(InvalidTopicName::Character(' ')));
        assert_eq!(TopicName::new("é"), Err(InvalidTopicName::Character('é')));
    }
}
