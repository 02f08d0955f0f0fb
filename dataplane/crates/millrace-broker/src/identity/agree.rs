//! Whether settings, metadata, write-ahead log and bucket belong together: a pure function.

use millrace_meta::sqlite::MetaIdentity;
use millrace_model::{NodeEpoch, NodeId};
use millrace_wal::WalIdentity;

use super::mismatch::{Age, Mismatch};

/// What the settings say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Configured {
    pub(crate) cluster_id: Option<String>,
    pub(crate) node_id: NodeId,
}

/// What the bucket says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BucketIdentity {
    /// The cluster in its mark.
    pub(crate) cluster_id: Option<String>,
    /// The end of this node's metadata backup.
    pub(crate) backup: Option<BackupEnd>,
    /// An object, if any: only asked where metadata and log are blank.
    pub(crate) object: Option<String>,
}

/// The end of a metadata backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BackupEnd {
    pub(crate) cluster_id: String,
    /// The log of the start that wrote it.
    pub(crate) wal_id: u64,
    pub(crate) age: Age,
    /// Of the start that wrote it.
    pub(crate) nonce: u64,
}

/// Everything that must agree. `None`: blank; of the bucket: it does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sides {
    pub(crate) configured: Configured,
    pub(crate) metadata: Option<MetaIdentity>,
    pub(crate) wal: Option<WalIdentity>,
    pub(crate) bucket: Option<BucketIdentity>,
}

impl Sides {
    /// The cluster that the metadata, else the settings, else the log, else the bucket name.
    pub(super) fn cluster_id(&self) -> Option<&String> {
        let stored = self.metadata.as_ref().map(|metadata| &metadata.cluster_id);
        let owner = self.wal.as_ref().and_then(|wal| wal.owner.as_ref());
        let marked = self
            .bucket
            .as_ref()
            .and_then(|bucket| bucket.cluster_id.as_ref());
        stored
            .or(self.configured.cluster_id.as_ref())
            .or(owner.map(|owner| &owner.cluster_id))
            .or(marked)
    }

    /// Whether the metadata expects records in a log that is not here.
    pub(super) fn misses_its_log(&self) -> bool {
        let metadata = self.metadata.as_ref();
        !self.log_belongs() && metadata.is_some_and(|metadata| metadata.wal_id.is_some())
    }

    /// Whether the log is the one that the metadata expects, however old either is.
    pub(super) fn log_belongs(&self) -> bool {
        let (Some(metadata), Some(wal)) = (&self.metadata, &self.wal) else {
            return false;
        };
        let expected = metadata
            .wal_id
            .is_none_or(|expected| expected == wal.wal_id);
        let cluster_id = Some(&metadata.cluster_id);
        expected && wal_owner(cluster_id, self.configured.node_id, wal).is_ok()
    }
}

/// The sides belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Agreement {
    /// `None`: nothing says yet which cluster this is.
    pub(crate) cluster_id: Option<String>,
    /// Something is blank that the bucket alone can vouch for, and it does not answer.
    pub(crate) needs_bucket: bool,
}

/// Compares all sides.
///
/// # Errors
/// The first difference; those that a wrong setting explains come first.
pub(crate) fn agree(sides: &Sides) -> Result<Agreement, Mismatch> {
    let Sides {
        configured,
        metadata,
        wal,
        bucket,
    } = sides;
    if let Some(metadata) = metadata {
        with_settings(configured, metadata)?;
    }
    let cluster_id = sides.cluster_id();
    if let Some(wal) = wal {
        wal_owner(cluster_id, configured.node_id, wal)?;
    }
    let marked = bucket
        .as_ref()
        .and_then(|bucket| bucket.cluster_id.as_ref());
    if let (Some(cluster_id), Some(found)) = (cluster_id, marked)
        && cluster_id != found
    {
        return Err(Mismatch::BucketOfAnother {
            cluster_id: cluster_id.clone(),
            found: found.clone(),
        });
    }
    match (metadata, wal) {
        (None, Some(wal)) => {
            return Err(Mismatch::BlankMetadata {
                wal_id: wal.wal_id,
                owner: wal.owner.clone(),
            });
        }
        (None, None) => bucket
            .as_ref()
            .map_or(Ok(()), |bucket| nothing_lost(configured, bucket))?,
        (Some(metadata), wal) => {
            with_wal(metadata, wal.as_ref())?;
            if let Some(bucket) = bucket {
                with_bucket(metadata, configured.node_id, bucket)?;
            }
        }
    }
    Ok(Agreement {
        cluster_id: cluster_id.cloned(),
        needs_bucket: bucket.is_none() && (metadata.is_none() || wal.is_none()),
    })
}

fn with_settings(configured: &Configured, metadata: &MetaIdentity) -> Result<(), Mismatch> {
    if let Some(cluster_id) = &configured.cluster_id
        && *cluster_id != metadata.cluster_id
    {
        return Err(Mismatch::ConfiguredCluster {
            configured: cluster_id.clone(),
            stored: metadata.cluster_id.clone(),
        });
    }
    match metadata.node_id {
        Some(stored) if stored != configured.node_id => Err(Mismatch::ConfiguredNode {
            configured: configured.node_id,
            stored,
        }),
        _ => Ok(()),
    }
}

fn wal_owner(
    cluster_id: Option<&String>,
    node_id: NodeId,
    wal: &WalIdentity,
) -> Result<(), Mismatch> {
    let Some(owner) = &wal.owner else {
        return Ok(());
    };
    let cluster_id = cluster_id.unwrap_or(&owner.cluster_id);
    if owner.cluster_id == *cluster_id && owner.node_id == node_id {
        return Ok(());
    }
    Err(Mismatch::WalOfAnother {
        cluster_id: cluster_id.clone(),
        node_id,
        found: owner.clone(),
    })
}

/// Nothing here: the bucket must not know better.
fn nothing_lost(configured: &Configured, bucket: &BucketIdentity) -> Result<(), Mismatch> {
    if let Some(backup) = &bucket.backup {
        return Err(Mismatch::VolumeLost {
            cluster_id: backup.cluster_id.clone(),
            node_id: configured.node_id,
            backup: backup.age,
        });
    }
    bucket
        .object
        .clone()
        .map_or(Ok(()), |object| Err(Mismatch::BucketInUse { object }))
}

fn age_of(metadata: &MetaIdentity) -> Age {
    Age {
        generation: metadata.generation.unwrap_or(NodeEpoch(0)),
        revision: metadata.revision,
    }
}

/// The metadata that a log relies on.
pub(super) fn age_of_wal(wal: &WalIdentity) -> Age {
    let owner = wal.owner.as_ref();
    Age {
        generation: owner.map_or(NodeEpoch(0), |owner| owner.generation),
        revision: wal.revision,
    }
}

fn with_wal(metadata: &MetaIdentity, wal: Option<&WalIdentity>) -> Result<(), Mismatch> {
    let Some(wal) = wal else {
        return metadata
            .wal_id
            .map_or(Ok(()), |expected| Err(Mismatch::BlankWal { expected }));
    };
    let found = wal.wal_id;
    // Without a recorded id, the first log was formatted just before a crash, or it is an upgrade.
    if let Some(expected) = metadata.wal_id
        && expected != found
    {
        return Err(Mismatch::AnotherWal { expected, found });
    }
    let relied_on = age_of_wal(wal);
    let ours = age_of(metadata);
    if ours.is_behind(relied_on) {
        return Err(Mismatch::MetadataBehindWal {
            metadata: ours,
            wal: relied_on,
        });
    }
    Ok(())
}

fn with_bucket(
    metadata: &MetaIdentity,
    node_id: NodeId,
    bucket: &BucketIdentity,
) -> Result<(), Mismatch> {
    if bucket.cluster_id.is_none() && metadata.bucket_claimed {
        return Err(Mismatch::BlankBucket {
            cluster_id: metadata.cluster_id.clone(),
        });
    }
    let Some(BackupEnd { wal_id, age, .. }) = bucket.backup else {
        return Ok(());
    };
    let ours = age_of(metadata);
    if !ours.is_behind(age) {
        return Ok(());
    }
    let another = metadata.wal_id.is_some_and(|ours| ours != wal_id);
    Err(if another {
        Mismatch::TakenOver {
            node_id,
            metadata: ours,
            wal_id,
            backup: age,
        }
    } else {
        Mismatch::MetadataBehindBackup {
            metadata: ours,
            backup: age,
        }
    })
}

impl Age {
    /// Whether something knows a later start or a later transaction.
    fn is_behind(self, other: Self) -> bool {
        self.generation < other.generation || self.revision < other.revision
    }
}

#[cfg(test)]
mod tests {
    use millrace_wal::WalOwner;

    use super::*;

    fn age(generation: u64, revision: u64) -> Age {
        Age {
            generation: NodeEpoch(generation),
            revision,
        }
    }

    fn backup(wal_id: u64, age: Age) -> Option<BackupEnd> {
        Some(BackupEnd {
            cluster_id: "c".into(),
            wal_id,
            age,
            nonce: 0,
        })
    }

    /// Node 1 of the cluster `c` after its third start.
    fn sides() -> Sides {
        Sides {
            configured: Configured {
                cluster_id: Some("c".into()),
                node_id: NodeId(1),
            },
            metadata: Some(MetaIdentity {
                cluster_id: "c".into(),
                node_id: Some(NodeId(1)),
                wal_id: Some(77),
                generation: Some(NodeEpoch(3)),
                revision: 500,
                bucket_claimed: true,
            }),
            wal: Some(WalIdentity {
                wal_id: 77,
                owner: Some(WalOwner {
                    cluster_id: "c".into(),
                    node_id: NodeId(1),
                    generation: NodeEpoch(3),
                }),
                revision: 480,
            }),
            bucket: Some(BucketIdentity {
                cluster_id: Some("c".into()),
                backup: backup(77, age(3, 499)),
                object: None,
            }),
        }
    }

    fn metadata(sides: &mut Sides) -> &mut MetaIdentity {
        sides.metadata.as_mut().expect("there")
    }

    fn wal(sides: &mut Sides) -> &mut WalIdentity {
        sides.wal.as_mut().expect("there")
    }

    fn bucket(sides: &mut Sides) -> &mut BucketIdentity {
        sides.bucket.as_mut().expect("there")
    }

    /// The sides after `change` agree on the cluster `c`.
    fn agreed(change: impl FnOnce(&mut Sides)) -> bool {
        let mut sides = sides();
        change(&mut sides);
        let agreement = agree(&sides).expect("agrees");
        assert_eq!(agreement.cluster_id.as_deref(), Some("c"));
        agreement.needs_bucket
    }

    fn refused(change: impl FnOnce(&mut Sides)) -> Mismatch {
        let mut sides = sides();
        change(&mut sides);
        agree(&sides).expect_err("differs")
    }

    #[test]
    fn what_a_crash_or_an_upgrade_leaves_agrees() {
        assert!(!agreed(|_| ()));
        assert!(!agreed(|sides| sides.configured.cluster_id = None));
        // The bucket does not answer: everything else says the same.
        assert!(!agreed(|sides| sides.bucket = None));
        // Killed between the registration and the header of the log.
        assert!(!agreed(
            |sides| metadata(sides).generation = Some(NodeEpoch(4))
        ));
        // Killed in the first start, before the log was formatted, and before its id was noted.
        let no_log = |sides: &mut Sides| {
            metadata(sides).wal_id = None;
            sides.wal = None;
        };
        assert!(!agreed(no_log));
        assert!(agreed(|sides| {
            no_log(sides);
            sides.bucket = None;
        }));
        assert!(!agreed(|sides| metadata(sides).wal_id = None));
        // An upgrade: nobody has named an owner or marked the bucket.
        assert!(!agreed(|sides| {
            *metadata(sides) = MetaIdentity {
                wal_id: None,
                bucket_claimed: false,
                revision: 0,
                ..metadata(sides).clone()
            };
            *wal(sides) = WalIdentity {
                owner: None,
                revision: 0,
                ..wal(sides).clone()
            };
            sides.bucket = Some(BucketIdentity::default());
        }));
        // After an adoption that gave the log up: the backup is of the former one.
        assert!(!agreed(
            |sides| bucket(sides).backup = backup(76, age(2, 400))
        ));
    }

    #[test]
    fn a_first_start_takes_the_id_from_wherever_one_is() {
        let blank = |cluster_id: Option<&str>, marked: Option<&str>| Sides {
            configured: Configured {
                cluster_id: cluster_id.map(str::to_owned),
                node_id: NodeId(1),
            },
            metadata: None,
            wal: None,
            bucket: Some(BucketIdentity {
                cluster_id: marked.map(str::to_owned),
                ..BucketIdentity::default()
            }),
        };
        let id = |sides: &Sides| agree(sides).expect("agrees").cluster_id;
        assert_eq!(id(&blank(None, None)), None);
        assert_eq!(id(&blank(Some("c"), None)).as_deref(), Some("c"));
        assert_eq!(id(&blank(None, Some("c"))).as_deref(), Some("c"));
        let silent = Sides {
            bucket: None,
            ..blank(Some("c"), None)
        };
        assert!(agree(&silent).expect("nothing differs").needs_bucket);
    }

    #[test]
    fn settings_of_another_are_refused() {
        let reason = refused(|sides| sides.configured.cluster_id = Some("d".into()));
        assert!(
            matches!(reason, Mismatch::ConfiguredCluster { .. }),
            "{reason}"
        );
        let reason = refused(|sides| sides.configured.node_id = NodeId(2));
        assert!(
            matches!(reason, Mismatch::ConfiguredNode { .. }),
            "{reason}"
        );
    }

    #[test]
    fn the_wrong_log_is_refused() {
        let owner = |change: fn(&mut WalOwner)| {
            refused(|sides| change(wal(sides).owner.as_mut().expect("named")))
        };
        let reason = owner(|owner| owner.cluster_id = "d".into());
        assert!(matches!(reason, Mismatch::WalOfAnother { .. }), "{reason}");
        let reason = owner(|owner| owner.node_id = NodeId(2));
        assert!(matches!(reason, Mismatch::WalOfAnother { .. }), "{reason}");
        let (expected, found) = (77, 78);
        let reason = refused(|sides| wal(sides).wal_id = found);
        assert_eq!(reason, Mismatch::AnotherWal { expected, found });
        let reason = refused(|sides| {
            wal(sides).wal_id = found;
            wal(sides).owner = None;
        });
        assert_eq!(reason, Mismatch::AnotherWal { expected, found });
        let reason = refused(|sides| sides.wal = None);
        assert_eq!(reason, Mismatch::BlankWal { expected });
        // Also where the bucket cannot be asked.
        let reason = refused(|sides| (sides.wal, sides.bucket) = (None, None));
        assert_eq!(reason, Mismatch::BlankWal { expected });
    }

    #[test]
    fn blank_metadata_is_refused_wherever_something_is_known() {
        let reason = refused(|sides| sides.metadata = None);
        assert!(
            matches!(
                reason,
                Mismatch::BlankMetadata {
                    wal_id: 77,
                    owner: Some(_)
                }
            ),
            "{reason}"
        );
        let reason = refused(|sides| {
            sides.metadata = None;
            wal(sides).owner = None;
        });
        assert_eq!(
            reason,
            Mismatch::BlankMetadata {
                wal_id: 77,
                owner: None
            }
        );
        let reason = refused(|sides| (sides.metadata, sides.wal) = (None, None));
        let expected = Mismatch::VolumeLost {
            cluster_id: "c".into(),
            node_id: NodeId(1),
            backup: age(3, 499),
        };
        assert_eq!(reason, expected);
        let reason = refused(|sides| {
            (sides.metadata, sides.wal) = (None, None);
            bucket(sides).backup = None;
            bucket(sides).object = Some("1000/c/0000000000000001".into());
        });
        assert!(matches!(reason, Mismatch::BucketInUse { .. }), "{reason}");
    }

    #[test]
    fn old_metadata_is_refused() {
        let behind = |generation, revision| {
            refused(|sides| {
                metadata(sides).generation = Some(NodeEpoch(generation));
                metadata(sides).revision = revision;
            })
        };
        let wal = age(3, 480);
        let metadata_is = age(2, 500);
        let expected = |metadata| Mismatch::MetadataBehindWal { metadata, wal };
        assert_eq!(behind(2, 500), expected(metadata_is));
        assert_eq!(behind(3, 479), expected(age(3, 479)));
        let reason = behind(3, 498);
        let (metadata_is, backup) = (age(3, 498), age(3, 499));
        let expected = Mismatch::MetadataBehindBackup {
            metadata: metadata_is,
            backup,
        };
        assert_eq!(reason, expected);
    }

    #[test]
    fn another_machine_that_has_taken_over_is_seen_in_the_bucket() {
        let reason = refused(|sides| bucket(sides).backup = backup(99, age(4, 600)));
        let expected = Mismatch::TakenOver {
            node_id: NodeId(1),
            metadata: age(3, 500),
            wal_id: 99,
            backup: age(4, 600),
        };
        assert_eq!(reason, expected);
    }

    #[test]
    fn the_wrong_bucket_is_refused() {
        let reason = refused(|sides| bucket(sides).cluster_id = Some("d".into()));
        assert!(
            matches!(reason, Mismatch::BucketOfAnother { .. }),
            "{reason}"
        );
        let reason = refused(|sides| *bucket(sides) = BucketIdentity::default());
        assert!(matches!(reason, Mismatch::BlankBucket { .. }), "{reason}");
    }

    #[test]
    fn every_text_names_two_sides_and_a_way_out() {
        let reasons = [
            refused(|sides| sides.configured.cluster_id = Some("d".into())),
            refused(|sides| sides.configured.node_id = NodeId(2)),
            refused(|sides| wal(sides).wal_id = 78),
            refused(|sides| sides.wal = None),
            refused(|sides| sides.metadata = None),
            refused(|sides| (sides.metadata, sides.wal) = (None, None)),
            refused(|sides| metadata(sides).revision = 1),
            refused(|sides| metadata(sides).revision = 490),
            refused(|sides| bucket(sides).backup = backup(99, age(4, 600))),
            refused(|sides| bucket(sides).cluster_id = Some("d".into())),
            refused(|sides| *bucket(sides) = BucketIdentity::default()),
        ];
        for reason in reasons {
            let text = reason.to_string();
            let ways = [
                "correct",
                "restore",
                "choose",
                "millrace adopt",
                "millrace recover",
            ];
            assert!(ways.iter().any(|way| text.contains(way)), "{text}");
            assert!(
                text.contains("but") || text.contains("older") || text.contains(':'),
                "{text}"
            );
        }
    }
}
