//! What the broker asks for.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
    time::Duration,
};

use millrace_client::{
    Client, ClientConfig, Consumer, ConsumerConfig,
    consumer::{DecompressionGate, OffsetReset},
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    admission::{Admission, Permit},
    error::RecordsError,
    lane::Topic,
    limits::{
        BATCH_BYTES, FETCH_WAIT, IDLE_AFTER, PAGE_BYTES_DEFAULT, PREFETCH_BYTES, REQUEST_TIMEOUT,
        WAIT_MS_DEFAULT,
    },
    page::Page,
    produce::{Produced, Producers},
    query::{ReadQuery, Start, StreamQuery},
    tail::{RecordsStream, StreamFormat, StreamParts},
};

/// The name of these requests in the broker's logs, metrics and quotas.
pub const CLIENT_ID: &str = "millrace-admin-records";

/// Records of one cluster. Clones share everything.
///
/// Nothing runs before the first request. Requests run while their futures are polled: a future that
/// is dropped leaves nothing behind, except that records which were handed to a producer are sent.
#[derive(Clone)]
pub struct Records {
    inner: Arc<Inner>,
}

struct Inner {
    config: ClientConfig,
    client: OnceLock<Client>,
    producers: Producers,
    admission: Admission,
    /// For batches that are larger than the memory of one request.
    large_batches: DecompressionGate,
    stopped: CancellationToken,
}

impl Records {
    /// Records of the cluster that this client would talk to. The client's name and time-outs are
    /// replaced. A batch that decompresses to much takes one of `places`, each of which stands for
    /// [`DecompressionGate::BYTES_MAX`] of memory.
    #[must_use]
    pub fn new(mut config: ClientConfig, places: Arc<Semaphore>) -> Self {
        CLIENT_ID.clone_into(&mut config.client_id);
        config.request_timeout = REQUEST_TIMEOUT;
        config.connect_timeout = REQUEST_TIMEOUT;
        Self {
            inner: Arc::new(Inner {
                config,
                client: OnceLock::new(),
                producers: Producers::default(),
                admission: Admission::new(),
                large_batches: DecompressionGate::with_places(BATCH_BYTES, places),
                stopped: CancellationToken::new(),
            }),
        }
    }

    /// Ends all requests and streams, and refuses others.
    pub fn stop(&self) {
        self.inner.stopped.cancel();
    }

    /// Reads records.
    ///
    /// # Errors
    /// See [`RecordsError`].
    pub async fn read(&self, topic: &str, query: &ReadQuery) -> Result<Page, RecordsError> {
        let _permit = self.inner.admission.read(query.page_bytes).await?;
        self.until_stopped(async {
            let client = self.client();
            let topic = Topic::find(client, topic).await?;
            let consumer = self.consumer();
            Ok(Page::read(&topic, consumer, query).await?.0)
        })
        .await
    }

    /// Starts a stream of records.
    ///
    /// # Errors
    /// See [`RecordsError`]. What fails later is the stream's last item.
    pub async fn stream(
        &self,
        topic: &str,
        query: StreamQuery,
        format: StreamFormat,
    ) -> Result<RecordsStream, RecordsError> {
        let permit = self.inner.admission.stream()?;
        self.until_stopped(async {
            let client = self.client();
            let topic = Topic::find(client, topic).await?;
            let consumer = self.consumer();
            let selection = query.selection;
            let (earlier, lanes) = match selection.start {
                Start::Newest(limit) => {
                    let query = ReadQuery {
                        selection: selection.clone(),
                        limit,
                        page_bytes: PAGE_BYTES_DEFAULT,
                        wait: Duration::from_millis(WAIT_MS_DEFAULT),
                    };
                    let (page, lanes) = Page::read(&topic, consumer.clone(), &query).await?;
                    (page.records.into_iter().rev().collect(), lanes)
                }
                _ => {
                    let lanes = topic.lanes(&consumer, &selection).await?;
                    (VecDeque::new(), lanes)
                }
            };
            RecordsStream::new(StreamParts {
                client: client.clone(),
                topic,
                consumer,
                selection,
                lanes,
                earlier,
                format,
                stopped: self.inner.stopped.clone(),
                _permit: permit,
            })
        })
        .await
    }

    /// Makes room for a produce request, before its body is read: so many bytes, or as many as one
    /// may have where that is not announced.
    ///
    /// # Errors
    /// The body would be too large, or too many requests are running.
    pub async fn admit_produce(&self, body_bytes: Option<u64>) -> Result<Permit, RecordsError> {
        self.inner.admission.produce(body_bytes).await
    }

    /// Produces the records of a body.
    ///
    /// # Errors
    /// Nothing was produced; see [`RecordsError`]. What becomes of single records is in the answer.
    pub async fn produce(
        &self,
        permit: Permit,
        topic: &str,
        body: &[u8],
    ) -> Result<Produced, RecordsError> {
        let produced = self
            .until_stopped(async {
                let client = self.client();
                let topic = Topic::find(client, topic).await?;
                self.inner.producers.produce(client, &topic, body).await
            })
            .await;
        drop(permit);
        produced
    }

    async fn until_stopped<T>(
        &self,
        work: impl Future<Output = Result<T, RecordsError>>,
    ) -> Result<T, RecordsError> {
        tokio::select! {
            biased;
            () = self.inner.stopped.cancelled() => Err(RecordsError::stopping()),
            done = work => done,
        }
    }

    fn consumer(&self) -> Consumer {
        let mut config = consumer_config();
        config.decompression_gate = Some(self.inner.large_batches.clone());
        Consumer::new(self.client(), config)
    }

    fn client(&self) -> &Client {
        let client = || Client::new(self.inner.config.clone());
        self.inner.client.get_or_init(client)
    }
}

fn consumer_config() -> ConsumerConfig {
    let mut config = ConsumerConfig::default();
    config.prefetch_bytes = PREFETCH_BYTES;
    config.prefetch_partition_bytes = PREFETCH_BYTES;
    config.max_partition_fetch_bytes = PREFETCH_BYTES;
    config.fetch_max_bytes = PREFETCH_BYTES;
    config.fetch_max_wait = FETCH_WAIT;
    config.prefetch_idle = IDLE_AFTER;
    // Records that retention deletes while they are read are skipped.
    config.auto_offset_reset = OffsetReset::Earliest;
    config
}
