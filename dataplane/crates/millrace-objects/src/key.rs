//! How objects are named.

use std::{fmt, sync::Arc};

use millrace_model::{NodeId, ObjectId};

/// The name of an object in its bucket: `<4 hex digits>/<cluster>/<16 hex digits>`.
///
/// The leading digits are the last four of the id, reversed. Ids are given out in sequence, so the
/// digits that change fastest come first and neighbours fall into different key ranges: S3 splits
/// its request limits by key range (3,500 writes and 5,500 reads per second each). Four digits also
/// bound the folders of a `file://` bucket to 65,536.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(Arc<str>);

impl ObjectKey {
    /// The name of object `id` of `cluster`. Characters of `cluster` other than letters, digits,
    /// `-` and `_` are replaced by `_`, so that no cluster id can leave its folder.
    #[must_use]
    pub fn of(cluster: &str, id: ObjectId) -> Self {
        let hex = format!("{:016x}", id.get());
        let spread: String = hex.chars().rev().take(4).collect();
        let legal = |c: char| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        };
        let cluster: String = cluster.chars().map(legal).collect();
        Self(format!("{spread}/{cluster}/{hex}").into())
    }

    /// The name of the mark that says whose bucket this is.
    #[must_use]
    pub fn cluster_mark() -> Self {
        Self("meta/cluster".into())
    }

    /// The folder of a node's metadata backup.
    pub(crate) fn chain_folder(node: NodeId) -> String {
        format!("meta/nodes/{node}/log")
    }

    /// The name of an item of a node's metadata backup.
    #[must_use]
    pub fn chain_item(node: NodeId, seq: u64) -> Self {
        Self(format!("{}/{seq:016x}", Self::chain_folder(node)).into())
    }

    /// A key as a bucket listed it; it need not be one that [`ObjectKey::of`] would give.
    pub(crate) fn listed(text: &str) -> Self {
        Self(text.into())
    }

    /// The id in the key's last part; `None` where the key was not made by [`ObjectKey::of`].
    #[must_use]
    pub fn object_id(&self) -> Option<ObjectId> {
        let hex = self.0.rsplit('/').next().filter(|hex| hex.len() == 16)?;
        u64::from_str_radix(hex, 16).ok().map(ObjectId)
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_fall_into_different_prefixes() {
        let key = |id| ObjectKey::of("c-1", ObjectId(id));
        assert_eq!(key(1).as_str(), "1000/c-1/0000000000000001");
        assert_eq!(key(2).as_str(), "2000/c-1/0000000000000002");
        assert_eq!(key(0xabcd_ef01).as_str(), "10fe/c-1/00000000abcdef01");
        assert_eq!(key(u64::MAX).object_id(), Some(ObjectId(u64::MAX)));
    }

    #[test]
    fn a_cluster_id_cannot_leave_its_folder() {
        assert_eq!(
            ObjectKey::of("../x/é", ObjectId(0)).as_str(),
            "0000/___x__/0000000000000000"
        );
        assert_eq!(ObjectKey::listed("a/b/c#1").object_id(), None);
    }
}
