//! Run-time settings as stored in the metadata: a JSON record for each scope.

use std::collections::BTreeMap;

use millrace_api::settings::SettingScope;
use millrace_model::NodeId;
use serde::{Deserialize, Serialize};

use crate::settings::{dynamic::Dynamic, layers::Set};

/// The version of the record.
const VERSION: u32 = 1;

/// Names and values, as `server.properties` would have them.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    version: u32,
    settings: BTreeMap<String, u64>,
}

/// A record that this program did not write.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MalformedRecord {
    #[error("it is of version {0}, which a newer program wrote")]
    Version(u32),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Under which name a scope's record is kept.
pub(crate) fn name(scope: SettingScope, node_id: NodeId) -> String {
    match scope {
        SettingScope::Broker => format!("settings/broker/{node_id}"),
        SettingScope::Cluster => "settings/cluster".to_owned(),
    }
}

pub(crate) fn encode(set: &Set) -> Vec<u8> {
    let pair = |(setting, value): (&Dynamic, &u64)| (setting.name().to_owned(), *value);
    let record = Record {
        version: VERSION,
        settings: set.iter().map(pair).collect(),
    };
    serde_json::to_vec(&record).expect("numbers under texts are JSON")
}

/// Settings that are not known (any more) are given by their names.
pub(crate) fn decode(bytes: &[u8]) -> Result<(Set, Vec<String>), MalformedRecord> {
    let Record { version, settings } = serde_json::from_slice(bytes)?;
    if version != VERSION {
        return Err(MalformedRecord::Version(version));
    }
    let (mut set, mut unknown) = (Set::new(), Vec::new());
    for (name, value) in settings {
        match Dynamic::find(&name) {
            Some(setting) => drop(set.insert(setting, value)),
            None => unknown.push(name),
        }
    }
    Ok((set, unknown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let whole: Set = Dynamic::ALL
            .into_iter()
            .zip([0, 1, u64::MAX, 1 << 40, 7, 9])
            .collect();
        for set in [Set::new(), whole] {
            let (read, unknown) = decode(&encode(&set)).expect("readable");
            assert_eq!((read, unknown.len()), (set, 0));
        }
    }

    #[test]
    fn the_record_is_this() {
        let set = Set::from([(Dynamic::BlockCache, 16_777_216)]);
        let text = r#"{"version":1,"settings":{"s3.block.cache.size":16777216}}"#;
        assert_eq!(String::from_utf8(encode(&set)).expect("text"), text);
    }

    #[test]
    fn what_others_wrote_is_not_guessed_at() {
        let newer = br#"{"version":2,"settings":{}}"#;
        assert!(matches!(decode(newer), Err(MalformedRecord::Version(2))));
        for odd in [&b""[..], b"[]", b"{\"version\":1}", b"\xff"] {
            assert!(
                matches!(decode(odd), Err(MalformedRecord::Json(_))),
                "{odd:?}"
            );
        }
        let gone = br#"{"version":1,"settings":{"colour":3,"s3.wal.cache.size":5}}"#;
        let (set, unknown) = decode(gone).expect("readable");
        assert_eq!(set, Set::from([(Dynamic::WalCache, 5)]));
        assert_eq!(unknown, ["colour"]);
    }
}
