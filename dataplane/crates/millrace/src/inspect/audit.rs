//! Whether what is in the bucket is what the metadata knows.
//!
//! The bucket is listed between two looks at the metadata, so that a broker may be running: what was
//! committed before and after the listing must be in it, and what is in it must be known before or
//! after. Ids that were given out meanwhile are in flight and say nothing.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use millrace_meta::sqlite::{ObjectRecord, ObjectRecords, ObjectState, read_object_records};
use millrace_model::ObjectId;
use millrace_objects::{ObjectKey, ObjectStorage};
use millrace_time::{SystemClock, SystemRandom};
use serde_json::{Value, json};

use super::InspectError;

/// What is audited, and how it is told.
#[derive(Debug, Clone)]
pub(crate) struct AuditOptions {
    /// The broker's metadata file.
    pub(crate) metadata: PathBuf,
    /// JSON lines, not text.
    pub(crate) json: bool,
}

/// The two sides compared.
#[derive(Debug, Default, PartialEq, Eq)]
struct Audit {
    /// Objects that the metadata refers to.
    referenced: u64,
    /// Those of them, of any of the two looks, that are in the bucket.
    stored: u64,
    stored_bytes: u64,
    /// Ids that are reserved, or objects that are to be deleted.
    pending: u64,
    /// Those of them that are in the bucket.
    pending_stored: u64,
    /// What came or went between the two looks.
    in_flight: u64,
    /// Referred to, and not in the bucket.
    missing: Vec<ObjectId>,
    /// Object, size in the metadata, size in the bucket, bytes.
    wrong_size: Vec<(ObjectId, u64, u64)>,
    /// In the bucket, and known to nobody; with their sizes, bytes.
    orphans: Vec<(ObjectId, u64)>,
}

pub(super) async fn audit(
    bucket: &str,
    cluster: &str,
    options: &AuditOptions,
) -> Result<(), InspectError> {
    let storage = ObjectStorage::open(bucket, SystemClock::shared(), SystemRandom::shared())?;
    let before = read_records(&options.metadata, cluster).await?;
    let mut listed = BTreeMap::new();
    for object in storage.list_cluster(cluster).await? {
        listed.extend(object.key.object_id().map(|id| (id, object.size)));
    }
    let after = read_records(&options.metadata, cluster).await?;
    let audit = compare(&before, &listed, &after);
    if options.json {
        audit.print_json(cluster);
    } else {
        audit.print_text(cluster);
    }
    audit.verdict()
}

async fn read_records(metadata: &Path, cluster: &str) -> Result<ObjectRecords, InspectError> {
    let records = read_object_records(metadata)
        .await
        .map_err(|source| InspectError::Metadata {
            path: metadata.to_owned(),
            source,
        })?;
    match &records.cluster_id {
        Some(id) if id == cluster => Ok(records),
        other => Err(InspectError::OtherCluster {
            path: metadata.to_owned(),
            stored: other.clone().unwrap_or_else(|| "no cluster".into()),
            asked: cluster.into(),
        }),
    }
}

fn compare(
    before: &ObjectRecords,
    listed: &BTreeMap<ObjectId, u64>,
    after: &ObjectRecords,
) -> Audit {
    let by_id = |records: &ObjectRecords| -> BTreeMap<ObjectId, ObjectRecord> {
        let records = records.objects.iter();
        records.map(|record| (record.object, *record)).collect()
    };
    let (known_before, known_after) = (by_id(before), by_id(after));
    let committed = |record: &ObjectRecord| record.state == ObjectState::Committed;
    let mut audit = Audit::default();
    for record in known_after.values() {
        let stored = listed.get(&record.object);
        if !committed(record) {
            audit.pending += 1;
            audit.pending_stored += u64::from(stored.is_some());
            continue;
        }
        audit.referenced += 1;
        match (stored, record.size) {
            (Some(&size), Some(expected)) if size != expected => {
                audit.wrong_size.push((record.object, expected, size));
            }
            (Some(&size), _) => {
                audit.stored += 1;
                audit.stored_bytes += size;
            }
            (None, _) if known_before.get(&record.object).is_some_and(committed) => {
                audit.missing.push(record.object);
            }
            (None, _) => audit.in_flight += 1,
        }
    }
    for (&id, &size) in listed
        .iter()
        .filter(|(id, _)| !known_after.contains_key(id))
    {
        let given_out_meanwhile = before.next_object <= id && id < after.next_object;
        if known_before.contains_key(&id) || given_out_meanwhile {
            audit.in_flight += 1;
        } else {
            audit.orphans.push((id, size));
        }
    }
    audit
}

impl Audit {
    fn verdict(&self) -> Result<(), InspectError> {
        let missing = self.missing.len() + self.wrong_size.len();
        match (missing, self.orphans.len()) {
            (0, 0) => Ok(()),
            (0, orphans) => Err(InspectError::Orphans(orphans)),
            (missing, _) => Err(InspectError::Missing(missing)),
        }
    }

    fn print_json(&self, cluster: &str) {
        let print = |line: &Value| super::print(line);
        let key = |id: ObjectId| ObjectKey::of(cluster, id).as_str().to_owned();
        for &id in &self.missing {
            print(&json!({ "missing": id.get(), "key": key(id) }));
        }
        for &(id, expected, size) in &self.wrong_size {
            print(&json!({
                "wrong_size": id.get(), "key": key(id), "expected_bytes": expected, "size_bytes": size,
            }));
        }
        for &(id, size) in &self.orphans {
            print(&json!({ "orphan": id.get(), "key": key(id), "size_bytes": size }));
        }
        print(&json!({
            "referenced": self.referenced,
            "stored": self.stored,
            "stored_bytes": self.stored_bytes,
            "pending": self.pending,
            "pending_stored": self.pending_stored,
            "in_flight": self.in_flight,
            "missing": self.missing.len(),
            "wrong_size": self.wrong_size.len(),
            "orphans": self.orphans.len(),
        }));
    }

    fn print_text(&self, cluster: &str) {
        let key = |id: ObjectId| ObjectKey::of(cluster, id);
        for &id in &self.missing {
            println!("missing: {}", key(id));
        }
        for &(id, expected, size) in &self.wrong_size {
            println!(
                "wrong size: {}, {size} bytes in place of {expected}",
                key(id)
            );
        }
        for &(id, size) in &self.orphans {
            println!("orphan: {}, {size} bytes", key(id));
        }
        let Self {
            referenced,
            stored,
            stored_bytes,
            pending,
            pending_stored,
            in_flight,
            ..
        } = self;
        println!("referenced: {referenced}, of which stored: {stored} ({stored_bytes} bytes)");
        println!("pending: {pending}, of which in the bucket: {pending_stored}");
        println!("came or went meanwhile: {in_flight}");
        println!(
            "missing: {}, of another size: {}, orphans: {}",
            self.missing.len(),
            self.wrong_size.len(),
            self.orphans.len()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(next: u64, objects: &[(u64, ObjectState)]) -> ObjectRecords {
        let record = |&(id, state): &(u64, ObjectState)| ObjectRecord {
            object: ObjectId(id),
            state,
            size: (state != ObjectState::Prepared).then_some(id * 10),
        };
        ObjectRecords {
            cluster_id: Some("c".into()),
            next_object: ObjectId(next),
            objects: objects.iter().map(record).collect(),
        }
    }

    fn listed(ids: &[u64]) -> BTreeMap<ObjectId, u64> {
        ids.iter().map(|&id| (ObjectId(id), id * 10)).collect()
    }

    use ObjectState::{Committed, Prepared, Retired};

    #[test]
    fn what_agrees_is_clean() {
        let known = records(
            9,
            &[(1, Committed), (2, Retired), (3, Prepared), (4, Retired)],
        );
        let audit = compare(&known, &listed(&[1, 2, 3]), &known);
        let expected = Audit {
            referenced: 1,
            stored: 1,
            stored_bytes: 10,
            pending: 3,
            pending_stored: 2,
            ..Audit::default()
        };
        assert_eq!(audit, expected);
        audit.verdict().expect("clean");
    }

    #[test]
    fn what_is_missing_or_known_to_nobody_is_named() {
        let known = records(9, &[(1, Committed), (2, Committed), (3, Committed)]);
        let mut stored = listed(&[1, 5, 12]);
        stored.insert(ObjectId(3), 7);
        let audit = compare(&known, &stored, &known);
        assert_eq!(audit.missing, [ObjectId(2)]);
        assert_eq!(audit.wrong_size, [(ObjectId(3), 30, 7)]);
        assert_eq!(audit.orphans, [(ObjectId(5), 50), (ObjectId(12), 120)]);
        assert!(matches!(audit.verdict(), Err(InspectError::Missing(2))));

        let audit = compare(&known, &listed(&[1, 2, 3, 5]), &known);
        assert!(matches!(audit.verdict(), Err(InspectError::Orphans(1))));
    }

    #[test]
    fn what_comes_and_goes_meanwhile_is_no_fault() {
        let before = records(
            5,
            &[(1, Committed), (2, Retired), (3, Committed), (4, Prepared)],
        );
        // 2 was deleted, 3 replaced and deleted, 4 committed after its place was listed, 5 and 6
        // uploaded, 7 reserved, written and given back.
        let after = records(
            9,
            &[
                (1, Committed),
                (4, Committed),
                (5, Committed),
                (6, Committed),
            ],
        );
        let audit = compare(&before, &listed(&[1, 2, 5, 7]), &after);
        assert_eq!((audit.referenced, audit.stored), (4, 2));
        assert_eq!(audit.in_flight, 4);
        audit.verdict().expect("clean");
    }
}
