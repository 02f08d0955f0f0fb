//! The classes of the metadata store's errors.

use millrace_model::{Classified, FailureClass};

use crate::{
    ClusterError, CommitError, CompactionError, CreatePartitionsError, CreateTopicError, Fenced,
    JoinError, OpenStreamError, ReserveError, StoreFailure, SweepError, TopicError, TrimError,
};

impl Classified for Fenced {
    fn class(&self) -> FailureClass {
        FailureClass::Fenced
    }
}

impl Classified for StoreFailure {
    fn class(&self) -> FailureClass {
        match self {
            Self::Database(_) => FailureClass::Transient,
            Self::Corrupt(_) => FailureClass::Corrupt,
            Self::TooLarge(_) => FailureClass::Rejected,
        }
    }
}

impl Classified for JoinError {
    fn class(&self) -> FailureClass {
        match self {
            Self::BeingAdopted { .. } => FailureClass::Transient,
            Self::OtherLog { .. } => FailureClass::Rejected,
            Self::Store(failure) => failure.class(),
        }
    }
}

impl Classified for ClusterError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Fenced(_) => FailureClass::Fenced,
            Self::NodeNot(..) | Self::NotOwner(_) => FailureClass::Rejected,
            Self::Adopted { .. } => FailureClass::Transient,
            Self::UnknownPartition(_) => FailureClass::Gone,
            Self::Store(failure) => failure.class(),
        }
    }
}

impl Classified for CreateTopicError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Exists(_) | Self::Partitions { .. } => FailureClass::Rejected,
            Self::Store(failure) => failure.class(),
        }
    }
}

impl Classified for CreatePartitionsError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Unknown(_) => FailureClass::Gone,
            Self::NotMore { .. } | Self::TooMany { .. } => FailureClass::Rejected,
            Self::Store(failure) => failure.class(),
        }
    }
}

impl Classified for TopicError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Unknown(_) => FailureClass::Gone,
            Self::Store(failure) => failure.class(),
        }
    }
}

impl Classified for OpenStreamError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Fenced(_) => FailureClass::Fenced,
            Self::Unknown(_) => FailureClass::Gone,
            Self::Store(failure) => failure.class(),
        }
    }
}

impl Classified for TrimError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Fenced(_) | Self::NotOwner(_) => FailureClass::Fenced,
            Self::Unknown(_) => FailureClass::Gone,
            Self::Store(failure) => failure.class(),
        }
    }
}

impl Classified for ReserveError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Fenced(_) => FailureClass::Fenced,
            Self::TooMany { .. } => FailureClass::Rejected,
            Self::Store(failure) => failure.class(),
        }
    }
}

impl Classified for CommitError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Fenced(_) | Self::NotOwner(_) => FailureClass::Fenced,
            Self::Discontinuous { .. }
            | Self::NotPrepared(_)
            | Self::UnknownStream(_)
            | Self::EmptyRange(_) => FailureClass::Rejected,
            Self::Store(failure) => failure.class(),
        }
    }
}

impl Classified for CompactionError {
    /// Inputs that were trimmed or replaced meanwhile are gone.
    fn class(&self) -> FailureClass {
        match self {
            Self::Fenced(_) => FailureClass::Fenced,
            Self::Differs { .. } => FailureClass::Gone,
            Self::NotPrepared(_)
            | Self::NotCommitted(_)
            | Self::EmptyRange(_)
            | Self::UnknownStream(_) => FailureClass::Rejected,
            Self::Store(failure) => failure.class(),
        }
    }
}

impl Classified for SweepError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Fenced(_) => FailureClass::Fenced,
            Self::Store(failure) => failure.class(),
        }
    }
}
