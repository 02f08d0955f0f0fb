//! What a failure means for its caller: the class of an error, which decides whether it is
//! retried and what clients are told.

use std::{error::Error, fmt, sync::Arc};

/// The class of a failure. Every error of the storage crates belongs to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureClass {
    /// It may pass: a store that is down, throttles or denies access, a full log. Retry, with
    /// growing pauses. No other class is retried.
    Transient,
    /// Stored bytes are not what was written. A retry reads the same bytes: fail the read, raise an
    /// alarm, leave the bytes alone.
    Corrupt,
    /// It does not exist (any more): trimmed, deleted, or replaced. Look it up again.
    Gone,
    /// Another start of this node, or another node, has taken over. Stop.
    Fenced,
    /// The request itself is wrong, or the store cannot do it at all. Fix the request or the
    /// configuration.
    Rejected,
}

impl FailureClass {
    /// The class as a label of a metric or a log line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Corrupt => "corrupt",
            Self::Gone => "gone",
            Self::Fenced => "fenced",
            Self::Rejected => "rejected",
        }
    }

    /// Whether a retry may succeed.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        matches!(self, Self::Transient)
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error that belongs to a class.
pub trait Classified: Error {
    /// The class of this failure.
    fn class(&self) -> FailureClass;
}

/// An error of a lower layer, shared: several operations may have met the same one. It keeps its
/// class and its type. Shown with all its sources in one line, so it has no further source itself.
#[derive(Clone)]
pub struct Cause {
    class: FailureClass,
    error: Arc<dyn Error + Send + Sync>,
}

impl Cause {
    /// The cause that `error` is.
    pub fn new(error: impl Classified + Send + Sync + 'static) -> Self {
        Self::of(error.class(), error)
    }

    /// The cause that `error`, which knows no classes itself, is here.
    pub fn of(class: FailureClass, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            class,
            error: Arc::from(error.into()),
        }
    }

    /// The error, to be downcast.
    #[must_use]
    pub fn error(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.error
    }
}

impl Classified for Cause {
    fn class(&self) -> FailureClass {
        self.class
    }
}

impl Error for Cause {}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        let mut source = self.error.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({:?})", self.class, self.error)
    }
}

/// Causes are equal where they are of one class and read the same.
impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        let same = Arc::ptr_eq(&self.error, &other.error);
        self.class == other.class && (same || self.to_string() == other.to_string())
    }
}

impl Eq for Cause {}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read")]
    struct Outer(#[source] std::io::Error);

    impl Classified for Outer {
        fn class(&self) -> FailureClass {
            FailureClass::Transient
        }
    }

    #[test]
    fn a_cause_shows_its_sources_and_keeps_its_class_and_type() {
        let cause = Cause::new(Outer(std::io::Error::other("EIO")));
        assert_eq!(cause.to_string(), "cannot read: EIO");
        assert!(cause.class().is_transient());
        assert!(cause.error().downcast_ref::<Outer>().is_some());
        assert_eq!(cause, cause.clone());
        assert_eq!(
            cause,
            Cause::of(FailureClass::Transient, "cannot read: EIO")
        );
        assert_ne!(cause, Cause::of(FailureClass::Corrupt, "cannot read: EIO"));
    }
}
