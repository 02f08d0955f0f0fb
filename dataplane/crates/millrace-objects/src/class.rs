//! The classes of the bucket's errors.

use millrace_model::{Classified, FailureClass};

use crate::{
    AssemblyError, Corrupt, GetError, InvalidEntry, ListError, PutError, ReadError,
    bucket::BucketError,
    chain::{ClaimError, PutItemError, ReadItemError},
    storage::DeleteError,
};

impl Classified for BucketError {
    /// A store that denies access is down for this broker until somebody repairs its permissions or
    /// credentials, which happens while it runs: transient, though not within seconds
    /// ([`BucketError::may_pass`]).
    fn class(&self) -> FailureClass {
        match self {
            Self::NotFound => FailureClass::Gone,
            Self::AlreadyExists | Self::Unsupported(_) => FailureClass::Rejected,
            Self::Denied(_) | Self::Failed(_) | Self::TimedOut(_) => FailureClass::Transient,
        }
    }
}

impl Classified for PutError {
    /// What is not found by a write is the bucket itself, or its folder: it may come back.
    fn class(&self) -> FailureClass {
        match self {
            Self::Conflict { .. } | Self::TooLarge { .. } => FailureClass::Rejected,
            Self::Store { source, .. } => match source.class() {
                FailureClass::Gone => FailureClass::Transient,
                class => class,
            },
        }
    }
}

impl Classified for GetError {
    fn class(&self) -> FailureClass {
        match self {
            Self::NotFound { .. } => FailureClass::Gone,
            Self::Truncated { .. } => FailureClass::Corrupt,
            Self::Store { source, .. } => source.class(),
        }
    }
}

impl Classified for Corrupt {
    fn class(&self) -> FailureClass {
        FailureClass::Corrupt
    }
}

impl Classified for ReadError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Get(error) => error.class(),
            Self::Corrupt { .. } => FailureClass::Corrupt,
        }
    }
}

impl Classified for AssemblyError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Read(error) => error.class(),
            Self::Put(error) => error.class(),
            Self::Block { .. } => FailureClass::Corrupt,
        }
    }
}

impl Classified for InvalidEntry {
    fn class(&self) -> FailureClass {
        FailureClass::Rejected
    }
}

impl Classified for DeleteError {
    fn class(&self) -> FailureClass {
        self.0.class()
    }
}

impl Classified for ListError {
    fn class(&self) -> FailureClass {
        self.0.class()
    }
}

impl Classified for ReadItemError {
    fn class(&self) -> FailureClass {
        match self {
            Self::NotFound(_) => FailureClass::Gone,
            Self::Corrupt { .. } => FailureClass::Corrupt,
            Self::Get(error) => error.class(),
            Self::List(error) => error.class(),
        }
    }
}

impl Classified for PutItemError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Fenced { .. } => FailureClass::Fenced,
            Self::Store(error) => error.class(),
            Self::Check(error) => error.class(),
        }
    }
}

impl Classified for ClaimError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Put(error) => error.class(),
            Self::Read(error) => error.class(),
        }
    }
}
