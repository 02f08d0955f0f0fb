//! Making a change again that PostgreSQL has undone for another one's sake.

use crate::{
    ClusterError, CommitError, CompactionError, CreatePartitionsError, CreateTopicError, JoinError,
    OpenStreamError, ReserveError, StoreFailure, SweepError, TopicError, TrimError,
};

/// Two changes that meet again and again are stopped by their locks, not by luck: a few tries are enough.
const TRIES: u32 = 5;

/// PostgreSQL's codes for a transaction that may be repeated: serialization failure, deadlock
/// (postgresql.org/docs/current/errcodes-appendix.html).
const CONFLICTS: [&str; 2] = ["40001", "40P01"];

/// An error that may come from the database.
pub(super) trait OfStore {
    fn store_failure(&self) -> Option<&StoreFailure>;
}

impl OfStore for StoreFailure {
    fn store_failure(&self) -> Option<&StoreFailure> {
        Some(self)
    }
}

macro_rules! of_store {
    ($($error:ty),+) => {$(
        impl OfStore for $error {
            fn store_failure(&self) -> Option<&StoreFailure> {
                match self {
                    Self::Store(failure) => Some(failure),
                    _ => None,
                }
            }
        }
    )+};
}

of_store!(
    ClusterError,
    CommitError,
    CompactionError,
    CreatePartitionsError,
    CreateTopicError,
    JoinError,
    OpenStreamError,
    ReserveError,
    SweepError,
    TopicError,
    TrimError
);

pub(super) async fn retried<T, E, F>(change: impl Fn() -> F) -> Result<T, E>
where
    E: OfStore,
    F: Future<Output = Result<T, E>>,
{
    for _ in 1..TRIES {
        let made = change().await;
        match &made {
            Err(error) if error.store_failure().is_some_and(is_conflict) => {}
            _ => return made,
        }
    }
    change().await
}

fn is_conflict(failure: &StoreFailure) -> bool {
    let StoreFailure::Database(source) = failure else {
        return false;
    };
    let code = source
        .downcast_ref::<sqlx::Error>()
        .and_then(sqlx::Error::as_database_error)
        .and_then(|error| error.code());
    code.is_some_and(|code| CONFLICTS.contains(&&*code))
}
