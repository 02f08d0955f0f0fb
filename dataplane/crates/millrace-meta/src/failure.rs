//! What a database's errors mean.

use sqlx::{error::DatabaseError, sqlite::SqliteError};

use crate::StoreFailure;

impl From<sqlx::Error> for StoreFailure {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
                Self::Corrupt(error.to_string())
            }
            sqlx::Error::Database(error) if is_corrupt(&*error) => Self::Corrupt(error.to_string()),
            error => Self::Database(Box::new(error)),
        }
    }
}

/// Whether the database finds that its data is damaged. SQLite, or no database at all: `SQLITE_CORRUPT`, with its
/// extended codes, and `SQLITE_NOTADB` (sqlite.org/rescode.html).
fn is_corrupt(error: &dyn DatabaseError) -> bool {
    const CORRUPT: i32 = 11;
    const NOT_A_DATABASE: i32 = 26;
    /// Of PostgreSQL: the class "internal error" (postgresql.org/docs/current/errcodes-appendix.html).
    const DAMAGED: [&str; 2] = ["XX001", "XX002"];
    if error.try_downcast_ref::<SqliteError>().is_none() {
        return error.code().is_some_and(|code| DAMAGED.contains(&&*code));
    }
    let code = error.code().and_then(|code| code.parse::<i32>().ok());
    code.is_some_and(|code| matches!(code & 0xff, CORRUPT | NOT_A_DATABASE))
}
