//! The vocabulary of the schemas: kinds of fields, and the versions that have them.

use super::Schema;
pub(super) use super::{Field, Kind};

pub(super) const INT8: Kind = Kind::Fixed(1);
pub(super) const INT16: Kind = Kind::Fixed(2);
pub(super) const INT32: Kind = Kind::Fixed(4);
pub(super) const INT64: Kind = Kind::Fixed(8);
pub(super) const UUID: Kind = Kind::Fixed(16);
pub(super) const BOOL: Kind = Kind::Fixed(1);
pub(super) const TEXT: Kind = Kind::Text;
pub(super) const BLOB: Kind = Kind::Blob;
pub(super) const INT8S: Kind = Kind::List(&INT8);
pub(super) const INT32S: Kind = Kind::List(&INT32);
pub(super) const TEXTS: Kind = Kind::List(&TEXT);

pub(super) const fn always(kind: Kind) -> Field {
    between(0, i16::MAX, kind)
}

pub(super) const fn since(version: i16, kind: Kind) -> Field {
    between(version, i16::MAX, kind)
}

pub(super) const fn until(version: i16, kind: Kind) -> Field {
    between(0, version, kind)
}

pub(super) const fn between(since: i16, until: i16, kind: Kind) -> Field {
    Field { kind, since, until }
}

/// A structure without known tagged fields.
pub(super) const fn plain(fields: &'static [Field]) -> Schema {
    Schema {
        fields,
        tagged: &[],
    }
}

/// A list of structures.
macro_rules! list_of {
    ($schema:expr) => {
        Kind::List(&Kind::Struct(&$schema))
    };
}
pub(super) use list_of;
