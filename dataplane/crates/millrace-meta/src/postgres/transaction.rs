//! Transactions, and connections that are closed when their use is cut off.
//!
//! A caller that stops waiting drops the future of a statement. The driver then gives the connection back to the pool, which waits
//! for the statement's answer first: a connection that hangs keeps its place in the pool until TCP gives it up. And where `BEGIN` is
//! cut off, the driver does not know that a transaction is open, so a later statement on the connection would never be committed.

use std::ops::{Deref, DerefMut};

use sqlx::{
    PgConnection, PgPool, Postgres, SqlSafeStr, SqlStr, pool::PoolConnection,
    postgres::PgTransactionManager,
};
use sqlx_core::transaction::TransactionManager;

use crate::StoreFailure;

const PRESENT: &str = "the connection is taken only when this ends";

/// A connection of a pool. Unless it is given back, it is closed at once and its place in the pool is free.
pub(super) struct Borrowed(Option<PoolConnection<Postgres>>);

impl Borrowed {
    pub(super) async fn of(pool: &PgPool) -> Result<Self, StoreFailure> {
        Ok(Self(Some(pool.acquire().await?)))
    }

    /// The last statement was answered: the connection can be used again.
    pub(super) fn give_back(self) {
        drop(self.into_inner());
    }

    fn into_inner(mut self) -> PoolConnection<Postgres> {
        self.0.take().expect(PRESENT)
    }
}

impl Deref for Borrowed {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.0.as_ref().expect(PRESENT)
    }
}

impl DerefMut for Borrowed {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.0.as_mut().expect(PRESENT)
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(connection.detach());
        }
    }
}

/// A transaction. Unless it is committed, it is rolled back.
pub(super) struct Tx {
    connection: Option<PoolConnection<Postgres>>,
    closes: bool,
}

impl Tx {
    pub(super) async fn begin(pool: &PgPool) -> Result<Self, StoreFailure> {
        Self::begin_with(pool, None).await
    }

    /// Begins it with a statement of its own.
    pub(super) async fn begin_as(pool: &PgPool, begin: &'static str) -> Result<Self, StoreFailure> {
        Self::begin_with(pool, Some(begin.into_sql_str())).await
    }

    async fn begin_with(pool: &PgPool, begin: Option<SqlStr>) -> Result<Self, StoreFailure> {
        let mut connection = Borrowed::of(pool).await?;
        PgTransactionManager::begin(&mut connection, begin).await?;
        Ok(Self {
            connection: Some(connection.into_inner()),
            closes: false,
        })
    }

    /// Its connection is closed unless it is committed, as a [`Borrowed`] one is.
    pub(super) fn closing(self) -> Self {
        let mut closing = self;
        closing.closes = true;
        closing
    }

    pub(super) async fn commit(mut self) -> Result<(), StoreFailure> {
        PgTransactionManager::commit(&mut self).await?;
        drop(self.connection.take());
        Ok(())
    }
}

impl Deref for Tx {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.connection.as_ref().expect(PRESENT)
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.connection.as_mut().expect(PRESENT)
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else {
            return;
        };
        if self.closes {
            drop(connection.detach());
        } else {
            // Sent before anything else that is done with the connection.
            PgTransactionManager::start_rollback(&mut connection);
        }
    }
}
