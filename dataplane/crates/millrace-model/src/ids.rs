//! Ids and epochs: newtypes over the numbers that are stored.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The bare number, as it is stored.
            #[must_use]
            pub const fn get(self) -> $inner {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                Self(value)
            }
        }
    };
}

numbered!(
    /// One ordered stream of entries. Given out by the metadata store, never reused.
    StreamId(u64)
);
numbered!(
    /// One object in the bucket. Given out by the metadata store, never reused.
    ObjectId(u64)
);
numbered!(
    /// A broker: Kafka's `node.id`.
    NodeId(u32)
);
numbered!(
    /// Counts the starts of a node. Given out by the metadata store, so it never depends on a clock.
    NodeEpoch(u64)
);
numbered!(
    /// Counts the openings of a stream; an older epoch is fenced.
    StreamEpoch(u64)
);

/// A topic's id (KIP-516): stays the same for the topic's life, differs after re-creation.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct TopicId(pub Uuid);

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
