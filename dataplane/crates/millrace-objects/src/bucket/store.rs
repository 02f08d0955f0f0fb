//! Buckets that the `object_store` crate knows: folders, S3, memory.

use std::{collections::BinaryHeap, io, ops::Range, path::Path as FilePath, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::{
    ClientOptions, Error, GetOptions, GetRange, HeaderMap, HeaderValue, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutOptions, PutPayload, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder, Checksum},
    local::LocalFileSystem,
    memory::InMemory,
    multipart::{MultipartStore, PartId},
    path::Path,
};

use super::{
    Body, Bucket, BucketError, BucketUri, Cutter, Listed, PartSlot, PartTag, UploadId,
    copies::Copies, folder::Folder, span, staged::Staged, uri::S3Uri,
};
use crate::ObjectKey;

/// Pieces of one file that are read at the same time; each takes a blocking thread.
const FILE_READS_AT_ONCE: usize = 4;

/// A bucket over one of `object_store`'s stores, without retries or deadlines of its own.
#[derive(Debug)]
pub struct StoreBucket {
    store: Arc<dyn ObjectStore>,
    kind: Kind,
}

/// What is particular about the store.
#[derive(Debug)]
enum Kind {
    /// Writes durably and past the page cache, and is not listed in the order of the keys.
    Folder(Folder),
    S3(S3),
    Memory(Staged),
}

/// The two faces of S3 for objects that are written in parts.
#[derive(Debug)]
struct S3 {
    parts: AmazonS3,
    /// Sends `If-None-Match: *` with every request, and is asked for completions only: the library
    /// has no other way to make those conditional.
    completions: AmazonS3,
    copies: Copies,
}

impl StoreBucket {
    /// Opens the bucket; creates the folder of a `file://` one.
    ///
    /// # Errors
    /// [`BucketError::Unsupported`] where the address cannot be used, [`BucketError::Failed`]
    /// where the folder cannot be created.
    pub fn open(uri: &BucketUri) -> Result<Self, BucketError> {
        match uri {
            BucketUri::File(folder) => open_folder(folder),
            BucketUri::S3(s3) => open_s3(s3),
            BucketUri::Memory => Ok(Self::memory()),
        }
    }

    /// Removes what a crash left of writes that were under way, as far as nobody else does it. Only for
    /// the bucket's one owner: a write of another process that loses its file fails and is tried again.
    ///
    /// # Errors
    /// [`BucketError::Failed`] where the folder cannot be read.
    pub fn remove_unfinished(uri: &BucketUri) -> Result<(), BucketError> {
        let BucketUri::File(root) = uri else {
            return Ok(());
        };
        let folder = Folder::create(root).map_err(from_io)?;
        let removed = folder.remove_unfinished().map_err(from_io)?;
        if removed > 0 {
            tracing::info!(removed, "removed what a crash left of unfinished PUTs");
        }
        Ok(())
    }

    /// An empty bucket in memory.
    #[must_use]
    pub fn memory() -> Self {
        Self {
            store: Arc::new(InMemory::new()),
            kind: Kind::Memory(Staged::default()),
        }
    }
}

/// [`Folder`] writes, `object_store` reads, lists and deletes.
fn open_folder(root: &FilePath) -> Result<StoreBucket, BucketError> {
    let folder = Folder::create(root).map_err(from_io)?;
    let store = LocalFileSystem::new_with_prefix(root).map_err(from_store)?;
    Ok(StoreBucket {
        store: Arc::new(store),
        kind: Kind::Folder(folder),
    })
}

fn from_io(error: io::Error) -> BucketError {
    BucketError::Failed(Box::new(error))
}

fn from_write(error: io::Error) -> BucketError {
    match error.kind() {
        // A folder is created where it is missing, so it is the file of parts that is not there.
        io::ErrorKind::NotFound => BucketError::NotFound,
        io::ErrorKind::AlreadyExists => BucketError::AlreadyExists,
        io::ErrorKind::PermissionDenied => BucketError::Denied(Box::new(error)),
        _ => from_io(error),
    }
}

fn open_s3(s3: &S3Uri) -> Result<StoreBucket, BucketError> {
    // Fails where the program has chosen a provider before; that one then serves.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // Deadlines and retries are decorators of ours, so that each try is seen and counted.
    let client = ClientOptions::new()
        .with_timeout_disabled()
        .with_allow_http(true);
    let no_retry = RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    };
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(&s3.bucket)
        .with_client_options(client.clone())
        .with_retry(no_retry)
        .with_virtual_hosted_style_request(!s3.path_style);
    if let Some(region) = &s3.region {
        builder = builder.with_region(region);
    }
    match &s3.endpoint {
        Some(endpoint) => builder = builder.with_endpoint(endpoint),
        // The store then checks the body on arrival; other vendors' stores may not know the header.
        None => builder = builder.with_checksum_algorithm(Checksum::CRC64NVME),
    }
    if let (Some(id), Some(secret)) = (&s3.access_key, &s3.secret_key) {
        builder = builder
            .with_access_key_id(id)
            .with_secret_access_key(secret);
    }
    let store = builder.clone().build().map_err(from_store)?;
    let copies = Copies::new(&s3.bucket, &client).map_err(from_store)?;
    let mut only_create = HeaderMap::new();
    only_create.insert("if-none-match", HeaderValue::from_static("*"));
    let completions = builder
        // The same credentials: a provider of its own would send the header to their source.
        .with_credentials(Arc::clone(store.credentials()))
        .with_client_options(client.with_default_headers(only_create))
        .build()
        .map_err(from_store)?;
    Ok(StoreBucket {
        store: Arc::new(store.clone()),
        kind: Kind::S3(S3 {
            parts: store,
            completions,
            copies,
        }),
    })
}

fn from_store(error: Error) -> BucketError {
    match error {
        Error::NotFound { .. } => BucketError::NotFound,
        Error::AlreadyExists { .. } | Error::Precondition { .. } => BucketError::AlreadyExists,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            BucketError::Denied(Box::new(error))
        }
        Error::NotSupported { .. }
        | Error::NotImplemented { .. }
        | Error::InvalidPath { .. }
        | Error::UnknownConfigurationKey { .. } => BucketError::Unsupported(Box::new(error)),
        _ => BucketError::Failed(Box::new(error)),
    }
}

fn payload_of(body: &Body) -> PutPayload {
    body.chunks().iter().cloned().collect()
}

fn path_of(key: &ObjectKey) -> Path {
    Path::from(key.as_str())
}

fn listed(meta: ObjectMeta) -> Listed {
    Listed {
        key: ObjectKey::listed(meta.location.as_ref()),
        size: meta.size,
    }
}

#[async_trait]
impl Bucket for StoreBucket {
    async fn put(&self, key: &ObjectKey, body: &Body) -> Result<(), BucketError> {
        if let Kind::Folder(folder) = &self.kind {
            return folder.put(key, body).await.map_err(from_write);
        }
        let options = PutOptions {
            mode: PutMode::Create,
            ..PutOptions::default()
        };
        let path = path_of(key);
        let put = self.store.put_opts(&path, payload_of(body), options).await;
        put.map(drop).map_err(from_store)
    }

    async fn begin_parts(&self, key: &ObjectKey) -> Result<UploadId, BucketError> {
        match &self.kind {
            Kind::Folder(folder) => folder.begin_parts(key).await.map_err(from_write),
            Kind::Memory(staged) => Ok(staged.begin()),
            Kind::S3(s3) => {
                let started = s3.parts.create_multipart(&path_of(key)).await;
                started.map(UploadId::new).map_err(from_store)
            }
        }
    }

    async fn put_part(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        slot: PartSlot,
        body: &Body,
    ) -> Result<PartTag, BucketError> {
        match &self.kind {
            Kind::Folder(folder) => {
                let written = folder.put_part(key, upload, slot, body).await;
                written.map_err(from_write)
            }
            Kind::Memory(staged) => staged.put(upload, slot, body),
            Kind::S3(s3) => {
                let (path, id) = (path_of(key), upload.as_str().to_owned());
                let payload = payload_of(body);
                let part = s3.parts.put_part(&path, &id, slot.number, payload).await;
                Ok(PartTag::new(part.map_err(from_store)?.content_id))
            }
        }
    }

    async fn copy_part(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        slot: PartSlot,
        source: &ObjectKey,
        range: Range<u64>,
    ) -> Result<PartTag, BucketError> {
        match &self.kind {
            Kind::Folder(_) => Err(BucketError::Unsupported(
                "a folder's parts begin at multiples of its block size".into(),
            )),
            Kind::Memory(staged) => {
                let body = Body::from(vec![self.get(source, range).await?]);
                staged.put(upload, slot, &body)
            }
            Kind::S3(s3) => {
                let part = (key, upload, slot);
                s3.copies.copy_part(&s3.parts, part, source, range).await
            }
        }
    }

    async fn complete_parts(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        parts: &[PartTag],
        whole: &Body,
    ) -> Result<(), BucketError> {
        match &self.kind {
            Kind::Folder(folder) => {
                let completed = folder.complete_parts(key, upload, whole.size()).await;
                completed.map_err(from_write)
            }
            Kind::Memory(staged) => {
                let body = staged.joined(upload, parts)?;
                self.put(key, &body).await?;
                staged.abort(upload);
                Ok(())
            }
            Kind::S3(s3) => {
                let (path, id) = (path_of(key), upload.as_str().to_owned());
                let part = |tag: &PartTag| PartId {
                    content_id: tag.as_str().to_owned(),
                };
                let parts = parts.iter().map(part).collect();
                let completed = s3.completions.complete_multipart(&path, &id, parts).await;
                completed.map(drop).map_err(from_store)
            }
        }
    }

    async fn abort_parts(&self, key: &ObjectKey, upload: &UploadId) -> Result<(), BucketError> {
        match &self.kind {
            Kind::Folder(folder) => folder.abort_parts(key, upload).await.map_err(from_write),
            Kind::Memory(staged) => {
                staged.abort(upload);
                Ok(())
            }
            Kind::S3(s3) => {
                let (path, id) = (path_of(key), upload.as_str().to_owned());
                let aborted = s3.parts.abort_multipart(&path, &id).await;
                match aborted.map_err(from_store) {
                    Err(BucketError::NotFound) => Ok(()),
                    settled => settled,
                }
            }
        }
    }

    async fn get(&self, key: &ObjectKey, range: Range<u64>) -> Result<Bytes, BucketError> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(range)),
            ..GetOptions::default()
        };
        let found = self
            .store
            .get_opts(&path_of(key), options)
            .await
            .map_err(from_store)?;
        found.bytes().await.map_err(from_store)
    }

    async fn get_pieces(
        &self,
        key: &ObjectKey,
        pieces: &[Range<u64>],
    ) -> Result<Vec<Bytes>, BucketError> {
        let path = path_of(key);
        if matches!(self.kind, Kind::Folder(_)) {
            // A file has no requests to spare, and gives each piece into memory of its own.
            let mut reads = Vec::with_capacity(pieces.len());
            for piece in pieces {
                reads.push(self.get(key, piece.clone()));
            }
            let reads = stream::iter(reads).buffered(FILE_READS_AT_ONCE);
            return reads.try_collect().await;
        }
        let options = GetOptions {
            range: Some(GetRange::Bounded(span(pieces))),
            ..GetOptions::default()
        };
        let found = self.store.get_opts(&path, options).await;
        let mut chunks = found.map_err(from_store)?.into_stream();
        let mut cutter = Cutter::new(pieces);
        while let Some(chunk) = chunks.try_next().await.map_err(from_store)? {
            cutter.push(&chunk);
        }
        Ok(cutter.finish())
    }

    async fn size(&self, key: &ObjectKey) -> Result<u64, BucketError> {
        let found = self.store.head(&path_of(key)).await.map_err(from_store)?;
        if let Kind::Folder(folder) = &self.kind {
            folder.sync_name(key).await.map_err(from_write)?;
        }
        Ok(found.size)
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<(), BucketError> {
        let paths: Vec<_> = keys.iter().map(|key| Ok(path_of(key))).collect();
        let mut results = self.store.delete_stream(stream::iter(paths).boxed());
        let mut first_error = None;
        while let Some(result) = results.next().await {
            match result.map_err(from_store) {
                Ok(_) | Err(BucketError::NotFound) => {}
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<Vec<Listed>, BucketError> {
        let prefix = (!prefix.is_empty()).then(|| Path::from(prefix));
        let found = match after {
            Some(after) => self
                .store
                .list_with_offset(prefix.as_ref(), &path_of(after)),
            None => self.store.list(prefix.as_ref()),
        };
        let mut found = found.map_ok(listed).map_err(from_store);
        if !matches!(self.kind, Kind::Folder(_)) {
            return found.take(limit).try_collect().await;
        }
        let mut first = BinaryHeap::new();
        while let Some(object) = found.try_next().await? {
            first.push((object.key, object.size));
            if first.len() > limit {
                first.pop();
            }
        }
        let sorted = first.into_sorted_vec().into_iter();
        Ok(sorted.map(|(key, size)| Listed { key, size }).collect())
    }
}
