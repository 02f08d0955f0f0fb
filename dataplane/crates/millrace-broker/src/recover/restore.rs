//! From the chain in the bucket to a database file.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use futures_util::{StreamExt, stream};
use millrace_meta::sqlite::{Restore, RestoreError};
use millrace_model::{NodeEpoch, Offset, StreamId};
use millrace_objects::chain::{Chain, Item, ItemHeader, ItemKind, ListedItem, ReadItemError};

/// Items that are read at the same time: hides the store's latency. A part of a snapshot has a few
/// mebibytes, so this bounds the memory as well.
const READS_IN_FLIGHT: usize = 8;

/// Items that are looked through for the first snapshot of the chain, which begins with one as soon as
/// it has been cut; before, with a claim.
const FIRST_ITEMS: usize = 64;

/// Why nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// There is no backup.
    #[error("the bucket has no metadata backup of this node; correct s3.data.buckets or node.id")]
    NoBackup,
    /// There is one, without a snapshot that can be read.
    #[error("the metadata backup has no whole snapshot{0}")]
    NoSnapshot(String),
    /// The moment that was asked for is before the first snapshot.
    #[error("--at is before the first moment that can be restored, {0}")]
    BeforeWindow(String),
    /// The backup cannot be read.
    #[error(transparent)]
    Read(#[from] ReadItemError),
    /// The database cannot be written.
    #[error(transparent)]
    Restore(#[from] RestoreError),
}

/// How far a stream was acknowledged, and when that was known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Acknowledged {
    pub(super) end: Offset,
    pub(super) wall_ms: i64,
}

/// What came out of the chain.
#[derive(Debug)]
pub(super) struct Restored {
    pub(super) cluster_id: String,
    /// The log of the newest start.
    pub(super) wal_id: u64,
    /// The moment that the database shows.
    pub(super) recovered_to_ms: i64,
    /// The first moment that can be restored.
    pub(super) window_start_ms: i64,
    /// The last moment of which the chain knows what was acknowledged.
    pub(super) known_to_ms: i64,
    pub(super) snapshot_seq: u64,
    /// The last transaction that the database has.
    pub(super) applied: u64,
    /// Items that were read.
    pub(super) items: u64,
    /// The highest that any item names.
    pub(super) generation: NodeEpoch,
    pub(super) revision: u64,
    /// By log, since a log that was lost took what it had acknowledged along, and that was told then.
    acknowledged: HashMap<u64, BTreeMap<StreamId, Acknowledged>>,
    /// Nothing of the chain behind the snapshot is damaged or missing.
    pub(super) is_complete: bool,
    pub(super) warnings: Vec<String>,
}

impl Restored {
    /// What the newest log has acknowledged.
    pub(super) fn acknowledged(&self) -> BTreeMap<StreamId, Acknowledged> {
        let newest = self.acknowledged.get(&self.wal_id);
        newest.cloned().unwrap_or_default()
    }

    fn see(&mut self, header: &ItemHeader) {
        self.generation = self.generation.max(header.owner.generation);
        self.revision = self.revision.max(header.last_revision);
        self.wal_id = header.owner.wal_id;
        if header.kind == ItemKind::Frames {
            self.known_to_ms = header.wall_ms;
        }
    }
}

impl Restored {
    /// Takes how far the item says that streams are acknowledged.
    fn note_acknowledged(&mut self, item: &Item) {
        let Item {
            header, watermarks, ..
        } = item;
        let of_log = self.acknowledged.entry(header.owner.wal_id).or_default();
        for mark in watermarks {
            let (end, wall_ms) = (mark.end, header.wall_ms);
            let known = of_log
                .entry(mark.stream)
                .or_insert(Acknowledged { end, wall_ms });
            if end > known.end {
                *known = Acknowledged { end, wall_ms };
            }
        }
    }
}

/// Builds the database at `path` as it was at `at`, or as the end of the chain has it. Ends at the
/// first item that is missing or corrupt: what is built is always a state that was committed.
pub(super) async fn restore(
    chain: &Chain,
    path: &Path,
    at: Option<i64>,
) -> Result<Restored, ChainError> {
    let items = chain.items().await?;
    let tail = chain.read_tail().await?.ok_or(ChainError::NoBackup)?;
    let window_start_ms = window_start(chain, &items).await?;
    let end = match at {
        None => tail.next_seq - 1,
        Some(at) => last_at(chain, &items, at).await?,
    };
    if let (Some(at), Some(start)) = (at, window_start_ms)
        && at < start
    {
        return Err(ChainError::BeforeWindow(millrace_time::rfc3339::format(
            start,
        )));
    }
    let mut warnings = Vec::new();
    let mut candidate = newest_snapshot(chain, &items, end, &mut warnings).await?;
    loop {
        let attempt = Attempt {
            chain,
            items: &items,
            path,
            snapshot_seq: candidate,
            end,
        };
        match attempt.run().await? {
            Ok(mut restored) => {
                restored.window_start_ms = window_start_ms.unwrap_or(restored.recovered_to_ms);
                warnings.append(&mut restored.warnings);
                restored.warnings = warnings;
                return Ok(restored);
            }
            Err(why) => warnings.push(format!("snapshot {candidate} is not usable: {why}")),
        }
        // The snapshot before: each item names the newest one that was whole when it was written.
        let before = items.iter().rev().find(|item| item.seq < candidate);
        candidate = match before {
            Some(item) => newest_snapshot(chain, &items, item.seq, &mut warnings).await?,
            None => return Err(ChainError::NoSnapshot(format!(": {}", warnings.join("; ")))),
        };
    }
}

/// The first item of the newest snapshot that was whole at item `end`.
async fn newest_snapshot(
    chain: &Chain,
    items: &[ListedItem],
    end: u64,
    warnings: &mut Vec<String>,
) -> Result<u64, ChainError> {
    for item in items.iter().rev().filter(|item| item.seq <= end) {
        match chain.read_header(item.seq).await {
            Ok(header) if header.kind == ItemKind::Snapshot => {
                // It may be the last part: then it completes a snapshot that no item names yet.
                let first = first_part(chain, items, &header).await?;
                return Ok(first.unwrap_or(header.snapshot_seq));
            }
            Ok(header) if header.snapshot_seq > 0 => return Ok(header.snapshot_seq),
            // No snapshot was whole by then, or the start before did not get to name it.
            Ok(_) => {}
            Err(error @ (ReadItemError::Corrupt { .. } | ReadItemError::NotFound(_))) => {
                warnings.push(error.to_string());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(ChainError::NoSnapshot(String::new()))
}

/// Where the snapshot begins that `part` is of.
async fn first_part(
    chain: &Chain,
    items: &[ListedItem],
    part: &ItemHeader,
) -> Result<Option<u64>, ChainError> {
    for item in items.iter().rev().filter(|item| item.seq <= part.seq) {
        let header = match chain.read_header(item.seq).await {
            Ok(header) => header,
            Err(ReadItemError::Corrupt { .. } | ReadItemError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if header.owner.nonce != part.owner.nonce {
            return Ok(None);
        }
        if header.kind == ItemKind::Snapshot && header.part.offset == 0 {
            return Ok(Some(header.seq));
        }
    }
    Ok(None)
}

/// The last item that was written at `at` or before.
async fn last_at(chain: &Chain, items: &[ListedItem], at: i64) -> Result<u64, ChainError> {
    let (mut low, mut high) = (0, items.len());
    while low < high {
        let middle = usize::midpoint(low, high);
        let header = chain.read_header(items[middle].seq).await?;
        if header.wall_ms <= at {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    match low.checked_sub(1) {
        Some(last) => Ok(items[last].seq),
        None => Err(ChainError::BeforeWindow(match items.first() {
            Some(first) => {
                millrace_time::rfc3339::format(chain.read_header(first.seq).await?.wall_ms)
            }
            None => "which is unknown".to_owned(),
        })),
    }
}

/// When the first snapshot of the chain was written.
async fn window_start(chain: &Chain, items: &[ListedItem]) -> Result<Option<i64>, ChainError> {
    for item in items.iter().take(FIRST_ITEMS) {
        match chain.read_header(item.seq).await {
            Ok(header) if header.kind == ItemKind::Snapshot => return Ok(Some(header.wall_ms)),
            Ok(_) | Err(ReadItemError::Corrupt { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// A restoration from one snapshot.
struct Attempt<'a> {
    chain: &'a Chain,
    items: &'a [ListedItem],
    path: &'a Path,
    snapshot_seq: u64,
    end: u64,
}

/// Whose changes may follow, and the last one that was applied.
struct Base {
    nonce: u64,
    revision: u64,
    wall_ms: i64,
}

impl Attempt<'_> {
    /// The restored state, or why the snapshot is not usable.
    async fn run(&self) -> Result<Result<Restored, String>, ChainError> {
        let mut target = Restore::create(self.path)?;
        let base = match self.apply_snapshot(&mut target).await? {
            Ok(base) => base,
            Err(why) => return Ok(Err(why)),
        };
        let restored = self.apply_changes(&mut target, base).await?;
        target.finish()?;
        Ok(Ok(restored))
    }

    /// The items from the snapshot on, in order, several being read at a time.
    fn read(&self) -> impl futures_util::Stream<Item = (u64, Result<Item, ReadItemError>)> {
        let from = self
            .items
            .partition_point(|item| item.seq < self.snapshot_seq);
        let mut expected = self.snapshot_seq;
        let mut wanted = Vec::new();
        for &item in &self.items[from..] {
            if item.seq != expected {
                // A hole: nothing behind it can be applied.
                wanted.push(Err(expected));
            }
            expected = item.seq + 1;
            wanted.push(Ok(item));
        }
        let chain = self.chain.clone();
        stream::iter(wanted)
            .map(move |item| {
                let chain = chain.clone();
                async move {
                    match item {
                        Ok(item) => (item.seq, chain.read(item).await),
                        Err(seq) => (seq, Err(ReadItemError::NotFound(seq))),
                    }
                }
            })
            .buffered(READS_IN_FLIGHT)
    }

    /// Puts the parts of the snapshot into place. Changes may lie between them; they come later.
    async fn apply_snapshot(
        &self,
        target: &mut Restore,
    ) -> Result<Result<Base, String>, ChainError> {
        let mut items = std::pin::pin!(self.read());
        let (mut base, mut reached): (Option<Base>, u64) = (None, 0);
        while let Some((seq, item)) = items.next().await {
            let Item { header, body, .. } = match item {
                Ok(item) => item,
                Err(error) => return unusable(error),
            };
            if header.kind != ItemKind::Snapshot {
                if base.is_none() {
                    return Ok(Err(format!("item {seq} is no part of a snapshot")));
                }
                continue;
            }
            let known = base.get_or_insert(Base {
                nonce: header.owner.nonce,
                revision: header.last_revision,
                wall_ms: header.wall_ms,
            });
            let follows = known.nonce == header.owner.nonce
                && known.revision == header.last_revision
                && header.part.offset == reached;
            if !follows {
                return Ok(Err(format!("item {seq} does not continue it")));
            }
            target.write_part(reached, &body)?;
            reached += body.len() as u64;
            if reached >= header.part.file_bytes {
                known.wall_ms = header.wall_ms;
                return Ok(base.ok_or_else(String::new));
            }
        }
        Ok(Err("its last part is missing".to_owned()))
    }

    /// Puts the changes on top, as far as they follow each other, and notes what was acknowledged to the
    /// very end.
    async fn apply_changes(
        &self,
        target: &mut Restore,
        base: Base,
    ) -> Result<Restored, ChainError> {
        let mut restored = Restored {
            cluster_id: String::new(),
            wal_id: 0,
            recovered_to_ms: base.wall_ms,
            window_start_ms: 0,
            known_to_ms: base.wall_ms,
            snapshot_seq: self.snapshot_seq,
            applied: base.revision,
            items: 0,
            generation: NodeEpoch(0),
            revision: 0,
            acknowledged: HashMap::new(),
            is_complete: true,
            warnings: Vec::new(),
        };
        let mut goes_on = true;
        let mut items = std::pin::pin!(self.read());
        while let Some((seq, item)) = items.next().await {
            let item = match item {
                Ok(item) => item,
                Err(error @ (ReadItemError::Corrupt { .. } | ReadItemError::NotFound(_))) => {
                    restored
                        .warnings
                        .push(format!("{error}; nothing behind it can be restored"));
                    goes_on = false;
                    restored.is_complete = false;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let header = &item.header;
            restored.items += 1;
            restored.see(header);
            restored.cluster_id.clone_from(&header.owner.cluster_id);
            restored.note_acknowledged(&item);
            goes_on &= seq <= self.end && header.owner.nonce == base.nonce;
            if !goes_on {
                continue;
            }
            if header.kind == ItemKind::Frames
                && !item.body.is_empty()
                && header.last_revision > restored.applied
            {
                if header.first_revision != restored.applied + 1 {
                    let text = format!("item {seq} does not continue the changes before it");
                    restored.warnings.push(text);
                    goes_on = false;
                    restored.is_complete = false;
                    continue;
                }
                target.apply(&item.body)?;
                restored.applied = header.last_revision;
            }
            restored.recovered_to_ms = restored.recovered_to_ms.max(header.wall_ms);
        }
        Ok(restored)
    }
}

/// An item that is not there or not sound makes a snapshot unusable; a store that fails is an error.
fn unusable<T>(error: ReadItemError) -> Result<Result<T, String>, ChainError> {
    match error {
        ReadItemError::Corrupt { .. } | ReadItemError::NotFound(_) => Ok(Err(error.to_string())),
        error => Err(error.into()),
    }
}
