//! What an object that is written in parts consists of.

use std::{fmt, sync::Arc};

/// The store's name for a multipart upload that has started.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UploadId(Arc<str>);

impl UploadId {
    /// A name as a store gave it.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a part stands in its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartSlot {
    /// Its place among the parts, from 0.
    pub number: usize,
    /// Its first byte in the object.
    pub offset: u64,
}

/// The store's receipt for a part; completing the upload needs all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartTag(Arc<str>);

impl PartTag {
    /// A receipt as a store gave it.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The receipt as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
