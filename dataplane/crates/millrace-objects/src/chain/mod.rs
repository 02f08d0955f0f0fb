//! The chain of a node's metadata backup: one dense sequence of items, each put where nothing was.
//!
//! ```text
//! meta/nodes/{node}/log/{seq, 16 hex digits}
//!   begin · snapshot … · frames · frames · … · snapshot … · frames · begin (the next start) · …
//! ```
//!
//! An item is put with `If-None-Match: *`. So two processes that both believe they own the chain
//! cannot both write item `n`: the one that finds another's item there is fenced, and writes nothing
//! more. What the items mean to the database is not known here.

mod item;

use bytes::Bytes;
use millrace_model::NodeId;

pub use self::item::{
    CHAIN_BODY_BYTES_MAX, ChainOwner, CorruptItem, Draft, Item, ItemHeader, ItemKind, SnapshotPart,
    Watermark,
};
use self::item::{HEADER_BYTES_MAX, Stamp};
use crate::{
    GetError, ListError, Listed, ObjectKey, ObjectStorage, PutError, bucket::DELETE_KEYS_MAX,
    storage::DeleteError,
};

/// How often a claim is tried again where another start claims at the same moment.
const CLAIMS_MAX: u32 = 3;
/// Items at the end that are looked through for one with a sound header. A store does not lose the
/// headers of many items in a row; where it did, an operator should see it.
const UNSOUND_TAIL_MAX: usize = 64;

/// The chain of one node.
#[derive(Debug, Clone)]
pub struct Chain {
    storage: ObjectStorage,
    node: NodeId,
}

/// An item in a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedItem {
    /// Its place in the chain.
    pub seq: u64,
    /// Its bytes in the bucket.
    pub size: u64,
}

/// The end of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// The first item that is still there.
    pub first_seq: u64,
    /// The place of the next item.
    pub next_seq: u64,
    /// The last item with a sound header.
    pub last: ItemHeader,
}

/// Why an item or a tail was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadItemError {
    /// There is no such item.
    #[error("there is no item {0} in the metadata backup")]
    NotFound(u64),
    /// Its bytes are not what was written.
    #[error("item {seq} of the metadata backup is corrupt: {source}")]
    Corrupt {
        /// The item.
        seq: u64,
        /// What is wrong.
        source: CorruptItem,
    },
    /// The store failed, for all the retries: try later.
    #[error("the metadata backup cannot be read: {0}")]
    Get(#[source] GetError),
    /// The store failed, for all the retries: try later.
    #[error("the metadata backup cannot be listed: {0}")]
    List(#[source] ListError),
}

/// Why an item was not put.
#[derive(Debug, thiserror::Error)]
pub enum PutItemError {
    /// Another start of the node writes the chain: stop.
    #[error(
        "another instance of this node took over the metadata backup at item {seq}{by}; \
         this broker stops"
    )]
    Fenced {
        /// The item that is not ours.
        seq: u64,
        /// Whose it is, in words, as far as it can be read.
        by: String,
    },
    /// The store failed, for all the retries. Putting the same item again is right.
    #[error("cannot write the metadata backup: {0}")]
    Store(#[source] PutError),
    /// The store failed to say what lies behind the item. Putting the same item again is right.
    #[error("cannot read the end of the metadata backup: {0}")]
    Check(#[source] ListError),
}

/// Why a chain was not claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The tail is not the one that the caller agreed to: look again.
    #[error(transparent)]
    Put(#[from] PutItemError),
    /// The chain cannot be read.
    #[error(transparent)]
    Read(#[from] ReadItemError),
}

impl Chain {
    /// The chain of `node`.
    #[must_use]
    pub fn new(storage: ObjectStorage, node: NodeId) -> Self {
        Self { storage, node }
    }

    fn key(&self, seq: u64) -> ObjectKey {
        ObjectKey::chain_item(self.node, seq)
    }

    /// All items that are there, ascending; holes are left out.
    ///
    /// # Errors
    /// [`ReadItemError::List`].
    pub async fn items(&self) -> Result<Vec<ListedItem>, ReadItemError> {
        let folder = ObjectKey::chain_folder(self.node);
        let of_chain = |listed: Listed| {
            // Anything else in the folder is not ours.
            let seq = listed.key.object_id()?.get();
            (self.key(seq) == listed.key).then_some(ListedItem {
                seq,
                size: listed.size,
            })
        };
        let items = self.storage.list_all(&folder, of_chain).await;
        items.map_err(ReadItemError::List)
    }

    /// The chain's end; `None` where the node has no chain yet.
    ///
    /// # Errors
    /// [`ReadItemError::Corrupt`] where no sound header is near the end.
    pub async fn read_tail(&self) -> Result<Option<Tail>, ReadItemError> {
        let items = self.items().await?;
        let (Some(first), Some(last)) = (items.first(), items.last()) else {
            return Ok(None);
        };
        let mut unsound = None;
        for item in items.iter().rev().take(UNSOUND_TAIL_MAX) {
            match self.read_header(item.seq).await {
                Ok(header) => {
                    return Ok(Some(Tail {
                        first_seq: first.seq,
                        next_seq: last.seq + 1,
                        last: header,
                    }));
                }
                Err(error @ ReadItemError::Corrupt { .. }) => {
                    tracing::warn!(%error, "the end of the metadata backup is unsound");
                    unsound.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(unsound.unwrap_or(ReadItemError::NotFound(last.seq)))
    }

    /// The header of one item.
    ///
    /// # Errors
    /// See [`ReadItemError`].
    pub async fn read_header(&self, seq: u64) -> Result<ItemHeader, ReadItemError> {
        let bytes = self.get(seq, HEADER_BYTES_MAX as u64).await?;
        let header = ItemHeader::decode(&bytes).map(|(header, _)| header);
        self.sound(seq, header, |header| header)
    }

    /// One item, checked as a whole.
    ///
    /// # Errors
    /// See [`ReadItemError`].
    pub async fn read(&self, item: ListedItem) -> Result<Item, ReadItemError> {
        let bytes = self.get(item.seq, item.size.max(1)).await?;
        self.sound(item.seq, item::decode(&bytes), |item| &item.header)
    }

    async fn get(&self, seq: u64, bytes: u64) -> Result<Bytes, ReadItemError> {
        match self.storage.get_start(&self.key(seq), bytes).await {
            Ok(found) => Ok(found),
            Err(GetError::NotFound { .. }) => Err(ReadItemError::NotFound(seq)),
            Err(error) => Err(ReadItemError::Get(error)),
        }
    }

    /// What was read, unless it is corrupt or belongs elsewhere.
    fn sound<T>(
        &self,
        seq: u64,
        read: Result<T, CorruptItem>,
        header: impl FnOnce(&T) -> &ItemHeader,
    ) -> Result<T, ReadItemError> {
        let read = read.and_then(|read| {
            let header = header(&read);
            if header.seq == seq && header.owner.node_id == self.node {
                Ok(read)
            } else {
                Err(CorruptItem::Contradiction("it stands in another's place"))
            }
        });
        read.map_err(|source| ReadItemError::Corrupt { seq, source })
    }

    /// Makes `owner` the writer of the chain, behind `tail`, which is what the caller has read and
    /// agreed to. The former writer is fenced from now on.
    ///
    /// # Errors
    /// [`PutItemError::Fenced`] where another start has claimed the chain, or has gone on writing,
    /// since `tail` was read.
    pub async fn claim(
        &self,
        tail: Option<&Tail>,
        owner: ChainOwner,
        revision: u64,
        wall_ms: i64,
    ) -> Result<ChainWriter, PutItemError> {
        let mut writer = ChainWriter {
            chain: self.clone(),
            owner,
            first_seq: tail.map_or(1, |tail| tail.first_seq),
            next_seq: tail.map_or(1, |tail| tail.next_seq),
            snapshot_seq: tail.map_or(0, |tail| tail.last.snapshot_seq),
        };
        let begin = writer.next_item(wall_ms);
        let begin = begin.seal(Draft::empty(ItemKind::Begin, revision));
        writer.put(&begin).await?;
        Ok(writer)
    }

    /// Claims the chain from its writer: reads the tail, lets `agree` decide on it, and claims
    /// behind it; again where the former owner was faster.
    ///
    /// # Errors
    /// What `agree` refuses; [`ClaimError`] where the chain is claimed by others all the time.
    pub async fn claim_agreed<E: From<ClaimError>>(
        &self,
        owner: &ChainOwner,
        revision: u64,
        wall_ms: i64,
        agree: impl Fn(Option<&Tail>) -> Result<(), E>,
    ) -> Result<ChainWriter, E> {
        let mut claims = 0;
        loop {
            let tail = self.read_tail().await.map_err(ClaimError::from)?;
            agree(tail.as_ref())?;
            let claim = self.claim(tail.as_ref(), owner.clone(), revision, wall_ms);
            claims += 1;
            match claim.await {
                Err(PutItemError::Fenced { .. }) if claims < CLAIMS_MAX => {}
                Err(error) => return Err(ClaimError::from(error).into()),
                Ok(writer) => return Ok(writer),
            }
        }
    }
}

/// The one start of a node that writes its chain.
#[derive(Debug)]
pub struct ChainWriter {
    chain: Chain,
    owner: ChainOwner,
    /// The first item that may still be there.
    first_seq: u64,
    next_seq: u64,
    snapshot_seq: u64,
}

/// The next item, without what it carries.
#[derive(Debug)]
pub struct NextItem(Stamp);

impl NextItem {
    /// The whole item. Compresses, so a large one not on a thread that serves requests.
    #[must_use]
    pub fn seal(self, draft: Draft) -> SealedItem {
        SealedItem {
            seq: self.0.seq,
            bytes: item::encode(&self.0, draft),
        }
    }
}

/// An item that is ready to be put, as often as it takes.
#[derive(Debug, Clone)]
pub struct SealedItem {
    seq: u64,
    bytes: Bytes,
}

impl SealedItem {
    /// Its place in the chain.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Its bytes in the bucket.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
}

impl ChainWriter {
    /// Who writes.
    #[must_use]
    pub fn owner(&self) -> &ChainOwner {
        &self.owner
    }

    /// The place of the next item.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Items that may be there, including those of earlier starts.
    #[must_use]
    pub fn item_count(&self) -> u64 {
        self.next_seq - self.first_seq
    }

    /// Says that the snapshot that began with item `seq` is complete; later items name it.
    pub fn snapshot_complete(&mut self, seq: u64) {
        self.snapshot_seq = seq;
    }

    /// Everything that the next item says besides what it carries.
    #[must_use]
    pub fn next_item(&self, wall_ms: i64) -> NextItem {
        NextItem(Stamp {
            seq: self.next_seq,
            owner: self.owner.clone(),
            wall_ms,
            snapshot_seq: self.snapshot_seq,
        })
    }

    /// Puts the next item; it survives power loss once this returns. Where this very item is there,
    /// an earlier reply was lost, and it counts as put.
    ///
    /// # Errors
    /// See [`PutItemError`].
    pub async fn put(&mut self, item: &SealedItem) -> Result<(), PutItemError> {
        let key = self.chain.key(item.seq);
        let put = self.chain.storage.put(&key, vec![item.bytes.clone()]);
        match put.await {
            Ok(()) => {
                self.next_seq = self.next_seq.max(item.seq + 1);
                Ok(())
            }
            Err(PutError::Conflict { .. }) => Err(PutItemError::Fenced {
                seq: item.seq,
                by: self.describe(item.seq).await,
            }),
            Err(error) => Err(PutItemError::Store(error)),
        }
    }

    /// Checks that nobody has written behind the item `seq`, which this start has just put.
    ///
    /// # Errors
    /// [`PutItemError::Fenced`]: somebody has. [`PutItemError::Check`]: the store did not say; check again.
    pub async fn check_last(&self, seq: u64) -> Result<(), PutItemError> {
        let folder = ObjectKey::chain_folder(self.chain.node);
        let after = self.chain.key(seq);
        let behind = self.chain.storage.list(&folder, Some(&after), 1).await;
        match behind.map_err(PutItemError::Check)?.first() {
            None => Ok(()),
            Some(listed) => {
                let seq = listed.key.object_id().map_or(seq, |id| id.get());
                let by = self.describe(seq).await;
                Err(PutItemError::Fenced { seq, by })
            }
        }
    }

    async fn describe(&self, seq: u64) -> String {
        match self.chain.read_header(seq).await {
            Ok(ItemHeader { owner, .. }) => format!(
                " (generation {}, write-ahead log {:016x})",
                owner.generation, owner.wal_id
            ),
            Err(_) => String::new(),
        }
    }

    /// Deletes the items below `seq` that may be there; gives their number. What fails is deleted
    /// by a later call.
    ///
    /// # Errors
    /// [`DeleteError`]: some may be deleted.
    pub async fn delete_below(&mut self, seq: u64) -> Result<u64, DeleteError> {
        let before = self.first_seq;
        while self.first_seq < seq {
            // Oldest first, batch by batch, so that what is left never has a hole in its middle.
            let end = seq.min(self.first_seq + DELETE_KEYS_MAX as u64);
            let keys: Vec<_> = (self.first_seq..end)
                .map(|seq| self.chain.key(seq))
                .collect();
            self.chain.storage.delete(&keys).await?;
            self.first_seq = end;
        }
        Ok(self.first_seq.saturating_sub(before))
    }
}
