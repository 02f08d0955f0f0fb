//! Conversion between SQL's signed integers and our unsigned ones.

use crate::StoreFailure;

pub(crate) fn to_sql(number: u64) -> Result<i64, StoreFailure> {
    i64::try_from(number).map_err(|_| StoreFailure::TooLarge(number))
}

pub(crate) fn from_sql<T: TryFrom<i64>>(number: i64) -> Result<T, StoreFailure> {
    T::try_from(number).map_err(|_| StoreFailure::Corrupt(format!("{number} is out of range")))
}
