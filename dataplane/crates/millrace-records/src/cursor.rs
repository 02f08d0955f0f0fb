//! Where to go on: an opaque text of the characters that a URL leaves as they are.
//!
//! `1_<topic id in hexadecimal>_<a|s>_<partition>-<offset>.<partition>-<offset>…`, where `a` says
//! that all partitions of the topic were asked for, so that new ones belong to it, too.

use std::{collections::BTreeMap, fmt};

use crate::limits::{CURSOR_BYTES_MAX, PARTITIONS_MAX};

/// The version of the text.
const VERSION: &str = "1";

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// A topic that was deleted and created again is another one. 0 where it is not known.
    pub(crate) topic_id: u128,
    pub(crate) all_partitions: bool,
    /// The next offset of each partition.
    pub(crate) offsets: BTreeMap<i32, i64>,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let which = if self.all_partitions { 'a' } else { 's' };
        write!(f, "{VERSION}_{:032x}_{which}_", self.topic_id)?;
        for (nth, (partition, offset)) in self.offsets.iter().enumerate() {
            let dot = if nth == 0 { "" } else { "." };
            write!(f, "{dot}{partition}-{offset}")?;
        }
        Ok(())
    }
}

impl Cursor {
    /// Reads a text; nothing where it is no cursor.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.len() > CURSOR_BYTES_MAX {
            return None;
        }
        let mut parts = text.split('_');
        let mut next = || parts.next();
        let (version, id, which, offsets) = (next()?, next()?, next()?, next()?);
        let is_known = version == VERSION && id.len() == 32 && next().is_none();
        let all_partitions = match which {
            "a" => true,
            "s" => false,
            _ => return None,
        };
        let offset = |text: &str| {
            let (partition, offset) = text.split_once('-')?;
            let (partition, offset) = (partition.parse().ok()?, offset.parse().ok()?);
            (partition >= 0 && offset >= 0).then_some((partition, offset))
        };
        let offsets: BTreeMap<i32, i64> = offsets.split('.').map(offset).collect::<Option<_>>()?;
        let topic_id = u128::from_str_radix(id, 16).ok()?;
        (is_known && offsets.len() <= PARTITIONS_MAX).then_some(Self {
            topic_id,
            all_partitions,
            offsets,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cursors_are_read_as_they_were_written(
            topic_id: u128,
            all_partitions: bool,
            offsets in prop::collection::btree_map(
                0..=i32::MAX, 0..=i64::MAX, 1..=PARTITIONS_MAX
            ),
        ) {
            let cursor = Cursor { topic_id, all_partitions, offsets };
            prop_assert_eq!(Cursor::parse(&cursor.to_string()), Some(cursor));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text: String) {
            Cursor::parse(&text);
        }
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        let id = "0".repeat(32);
        assert!(Cursor::parse(&format!("1_{id}_a_0-1.1-2")).is_some());
        for wrong in [
            String::new(),
            format!("2_{id}_a_0-1"),
            format!("1_{id}_b_0-1"),
            format!("1_{id}_a_"),
            format!("1_{id}_a_0-1.x"),
            format!("1_{id}_a_0-1_"),
            format!("1_{id}_a_0--1"),
            "1_0_a_0-1".to_owned(),
        ] {
            assert_eq!(Cursor::parse(&wrong), None, "{wrong:?}");
        }
    }
}
