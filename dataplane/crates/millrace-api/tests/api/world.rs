//! A service on a real storage engine whose disk and bucket are in memory, and a client that speaks
//! to it in frames, without sockets.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
    time::Duration,
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::{
    messages::{RequestHeader, ResponseHeader},
    protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes},
};
use millrace_api::{
    AdvertisedEndpoint, ApiConfig, ApiParts, ApiService, Markers, NoPeers, NoSharePeers,
    ProducerIds, QuotaConfig, Security, ShareConfig, ShareStateRouter, TELEMETRY_BYTES_MAX,
    authorizer, client_quotas, delegation_tokens, resource_configs, scram_users,
};
use millrace_blockcache::{BlockCache, BlockCacheConfig};
use millrace_coordinator::{
    CoordinatorParts, GroupConfig, GroupCoordinator, ShareCoordinator, ShareCoordinatorParts,
    ShareStateConfig, ShareStates, TransactionConfig, TransactionCoordinator, TransactionParts,
};
use millrace_limiter::{Network, NetworkConfig};
use millrace_log::{LogDefaults, LogManager, LogParts};
use millrace_meta::{
    MetaStore,
    sqlite::{SqliteMeta, SqliteOptions},
};
use millrace_model::NodeId;
use millrace_objects::{
    ObjectStorage,
    bucket::{RetryPolicy, StoreBucket, TimeoutPolicy},
};
use millrace_purgatory::Timers;
use millrace_security::{acl::AuthorizerConfig, delegation::TokenConfig, quota::LiveQuotas};
use millrace_stream::{RecoveredLog, StreamConfig, StreamParts, StreamStore};
use millrace_tasks::Supervisor;
use millrace_testkit::{FaultyBucket, SimDisk};
use millrace_time::{SeededRandom, SharedClock, SharedRandom, SystemClock};
use millrace_wal::{Wal, WalConfig};
use millrace_wire::{
    ApiKey, Response, codec_version,
    service::{Accepted, BoxFuture, CloseReason, Peer, Service},
};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::{
    held_markers::{HeldMarkers, MarkerGate},
    kept_share_states::KeptShareStates,
    settings::KeptSettings,
    share_watch::{ShareWatch, WatchedShareStates},
};

/// No answer takes longer unless it hangs.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(20);

pub(crate) struct World {
    pub(crate) service: ApiService,
    pub(crate) logs: LogManager,
    pub(crate) bucket: FaultyBucket,
    pub(crate) network: Network,
    /// Who sends all requests.
    pub(crate) peer: Arc<Peer>,
    pub(crate) groups: GroupCoordinator,
    transactions: TransactionCoordinator,
    share_coordinator: ShareCoordinator,
    /// The seam that share groups and share partitions use.
    pub(crate) share_states: Arc<dyn ShareStates>,
    store: StreamStore,
    disk: SimDisk,
    pub(crate) meta: SqliteMeta,
    random: SharedRandom,
    clock: SharedClock,
    pub(crate) settings: Settings,
    folder: TempDir,
    correlation: AtomicI32,
}

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) defaults: LogDefaults,
    pub(crate) groups: GroupConfig,
    pub(crate) streams: StreamConfig,
    pub(crate) quotas: QuotaConfig,
    pub(crate) network: NetworkConfig,
    pub(crate) block_cache_bytes: u64,
    pub(crate) security: fn() -> Security,
    pub(crate) share: ShareConfig,
    /// With it, share partitions have their state there.
    pub(crate) kept_share_states: Option<Arc<KeptShareStates>>,
    /// With it, ACLs count.
    pub(crate) authorizer: Option<AuthorizerConfig>,
    /// With it, delegation tokens are enabled, and expire by this clock.
    pub(crate) tokens: Option<(TokenConfig, SharedClock)>,
    /// What share groups ask the share coordinator for.
    pub(crate) share_watch: Arc<ShareWatch>,
    /// While a test holds it, the ends of transactions are not written.
    pub(crate) markers: MarkerGate,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            defaults: LogDefaults {
                offsets_topic_partitions: 3,
                share_state_topic_partitions: 3,
                ..LogDefaults::default()
            },
            groups: GroupConfig {
                session_timeout_min: Duration::from_millis(100),
                ..GroupConfig::default()
            },
            streams: StreamConfig::default(),
            quotas: QuotaConfig::default(),
            network: NetworkConfig::default(),
            block_cache_bytes: 16 << 20,
            security: Security::open,
            share: ShareConfig::default(),
            kept_share_states: None,
            authorizer: None,
            tokens: None,
            share_watch: Arc::default(),
            markers: MarkerGate::default(),
        }
    }
}

impl Settings {
    fn share_states(&self, of_coordinator: &Arc<dyn ShareStates>) -> Arc<dyn ShareStates> {
        match &self.kept_share_states {
            Some(kept) => kept.clone(),
            None => Arc::clone(of_coordinator),
        }
    }
}

/// What a request came to.
pub(crate) enum Sent {
    Answer(Bytes),
    Later(BoxFuture<'static, Response>),
    Silent(BoxFuture<'static, ()>),
    Closed(CloseReason),
    /// Answered, and then the connection ends.
    Last(BoxFuture<'static, Response>, CloseReason),
}

struct Running {
    logs: LogManager,
    groups: GroupCoordinator,
    transactions: TransactionCoordinator,
    share_coordinator: ShareCoordinator,
    share_states: Arc<dyn ShareStates>,
    store: StreamStore,
    service: ApiService,
    network: Network,
}

impl World {
    pub(crate) fn share_watch(&self) -> &ShareWatch {
        &self.settings.share_watch
    }

    pub(crate) async fn new() -> Self {
        Self::with(Settings::default()).await
    }

    pub(crate) async fn with(settings: Settings) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let folder = folder.expect("a folder");
        let (random, clock) = (SeededRandom::shared(7), SystemClock::shared());
        let disk = SimDisk::new(64 << 20, Duration::from_micros(300), random.clone());
        let bucket = FaultyBucket::new(StoreBucket::memory(), random.clone());
        let path = folder.path().join("meta.db");
        let meta = SqliteMeta::open(&path, SqliteOptions::default(), clock.clone()).await;
        let meta = meta.expect("opens");
        let running = start(&disk, &bucket, &meta, &random, &clock, &settings).await;
        let Running {
            logs,
            groups,
            transactions,
            share_coordinator,
            share_states,
            store,
            service,
            network,
        } = running;
        let correlation = AtomicI32::new(1);
        Self {
            service,
            logs,
            bucket,
            network,
            peer: peer(1),
            groups,
            transactions,
            share_coordinator,
            share_states,
            store,
            disk,
            meta,
            random,
            clock,
            settings,
            folder,
            correlation,
        }
    }

    /// Stops everything in order and starts it again on the same disk, bucket and metadata.
    pub(crate) async fn restart(self) -> Self {
        self.service.stop_waiting();
        self.transactions.close().await;
        self.share_coordinator.close().await;
        self.groups.close().await;
        self.logs.close().await;
        self.store.close().await;
        let Self {
            bucket,
            disk,
            meta,
            random,
            clock,
            settings,
            folder,
            correlation,
            ..
        } = self;
        let running = start(&disk, &bucket, &meta, &random, &clock, &settings).await;
        let Running {
            logs,
            groups,
            transactions,
            share_coordinator,
            share_states,
            store,
            service,
            network,
        } = running;
        Self {
            service,
            logs,
            bucket,
            network,
            peer: peer(1),
            groups,
            transactions,
            share_coordinator,
            share_states,
            store,
            disk,
            meta,
            random,
            clock,
            settings,
            folder,
            correlation,
        }
    }

    /// Uploads everything and forgets what memory holds, so that reads go to objects.
    pub(crate) async fn chill(self) -> Self {
        self.restart().await
    }

    pub(crate) async fn send_frame(&self, frame: BytesMut) -> Sent {
        self.send_frame_as(&self.peer, frame).await
    }

    pub(crate) async fn send_frame_as(&self, peer: &Arc<Peer>, frame: BytesMut) -> Sent {
        let accepted = timeout(ANSWER_WAIT_MAX, self.service.accept(peer, frame)).await;
        match accepted.expect("stage 1 is short") {
            Accepted::Ready(response) => Sent::Answer(joined(&response)),
            Accepted::Pending(future) => Sent::Later(future),
            Accepted::Silent(future) => Sent::Silent(future),
            Accepted::Close(reason) => Sent::Closed(reason),
            Accepted::Last(future, reason) => Sent::Last(future, reason),
        }
    }

    pub(crate) async fn send<R: Request>(&self, version: i16, request: &R) -> Sent {
        self.send_as(&self.peer, version, request).await
    }

    /// Sends a request over another connection.
    pub(crate) async fn send_as<R: Request>(
        &self,
        peer: &Arc<Peer>,
        version: i16,
        request: &R,
    ) -> Sent {
        let correlation = self.correlation.fetch_add(1, Ordering::Relaxed);
        let frame = frame(version, correlation, request);
        self.send_frame_as(peer, frame).await
    }

    /// Sends a request over another connection and waits for its answer.
    pub(crate) async fn ask_as<R: Request>(
        &self,
        peer: &Arc<Peer>,
        version: i16,
        request: &R,
    ) -> R::Response {
        let sent = self.send_as(peer, version, request).await;
        answer::<R>(version, sent).await
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn ask<R: Request>(&self, version: i16, request: &R) -> R::Response {
        let sent = self.send(version, request).await;
        answer::<R>(version, sent).await
    }
}

/// Waits for the answer to a request that was sent.
pub(crate) async fn answer<R: Request>(version: i16, sent: Sent) -> R::Response {
    let bytes = match sent {
        Sent::Answer(bytes) => bytes,
        Sent::Later(future) | Sent::Last(future, _) => joined(
            &timeout(ANSWER_WAIT_MAX, future)
                .await
                .expect("an answer in time"),
        ),
        Sent::Silent(_) => panic!("no answer to a request of API {}", R::KEY),
        Sent::Closed(reason) => panic!("closed: {reason}"),
    };
    decode::<R>(version, bytes)
}

pub(crate) fn decode<R: Request>(version: i16, mut bytes: Bytes) -> R::Response {
    let length = bytes.get_i32();
    assert_eq!(
        usize::try_from(length),
        Ok(bytes.len()),
        "the length prefix"
    );
    let header_version = R::Response::header_version(version);
    ResponseHeader::decode(&mut bytes, header_version).expect("a response header");
    let response = R::Response::decode(&mut bytes, written::<R>(version));
    let response = response.unwrap_or_else(|e| panic!("API {} version {version}: {e}", R::KEY));
    assert!(
        bytes.is_empty(),
        "API {} version {version}: bytes after the answer",
        R::KEY
    );
    response
}

/// The version of the codec that is written as this one.
fn written<R: Request>(version: i16) -> i16 {
    codec_version(ApiKey::try_from(R::KEY).expect("an API"), version)
}

/// A request as it comes from the network, without its length prefix.
pub(crate) fn frame<R: Request>(version: i16, correlation: i32, request: &R) -> BytesMut {
    frame_of("test", version, correlation, request)
}

/// The same from a client with this id.
pub(crate) fn frame_of<R: Request>(
    client_id: &str,
    version: i16,
    correlation: i32,
    request: &R,
) -> BytesMut {
    let mut frame = BytesMut::new();
    RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation)
        .with_client_id(Some(text(client_id)))
        .encode(&mut frame, R::header_version(version))
        .expect("a legal header");
    let by_id = version == 10 && (R::KEY == OFFSET_COMMIT || R::KEY == OFFSET_FETCH);
    let written = if by_id { 9 } else { written::<R>(version) };
    let encoded = request.encode(&mut frame, written);
    encoded.unwrap_or_else(|e| panic!("API {} version {version}: {e}", R::KEY));
    match by_id {
        true => with_ids(&frame),
        false => frame,
    }
}

const OFFSET_COMMIT: i16 = ApiKey::OffsetCommit as i16;
const OFFSET_FETCH: i16 = ApiKey::OffsetFetch as i16;

/// A frame in which names that are the texts of ids have become ids: the codec does not write those versions.
fn with_ids(frame: &[u8]) -> BytesMut {
    const TEXT_BYTES: usize = 36;
    let mut out = BytesMut::new();
    let mut rest = frame;
    while let Some((&first, behind)) = rest.split_first() {
        let text = behind.get(..TEXT_BYTES);
        let text = text.filter(|_| usize::from(first) == TEXT_BYTES + 1);
        match text.and_then(|text| uuid::Uuid::try_parse_ascii(text).ok()) {
            Some(id) => {
                out.put_slice(id.as_bytes());
                rest = &behind[TEXT_BYTES..];
            }
            None => {
                out.put_u8(first);
                rest = behind;
            }
        }
    }
    out
}

fn joined(response: &Response) -> Bytes {
    let mut bytes = BytesMut::new();
    response
        .segments()
        .iter()
        .for_each(|segment| bytes.put_slice(segment));
    bytes.freeze()
}

pub(crate) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// The other end of the connection of a number.
pub(crate) fn peer(number: u64) -> Arc<Peer> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 50_000));
    Arc::new(Peer::new(number, address, "INTERNAL".into()))
}

fn config(settings: &Settings) -> ApiConfig {
    let endpoint = |listener: &str, host: &str, port| AdvertisedEndpoint {
        listener: listener.into(),
        host: host.into(),
        port,
    };
    ApiConfig {
        node_id: NodeId(5),
        cluster_id: "cluster".into(),
        endpoints: vec![
            endpoint("PLAINTEXT", "outside", 9_092),
            endpoint("INTERNAL", "inside", 9_093),
        ],
        fetch_bytes_max: millrace_api::FETCH_BYTES_MAX,
        telemetry_bytes_max: TELEMETRY_BYTES_MAX,
        rack: None,
        members: None,
        replica_selector: millrace_api::ReplicaSelector::default(),
        quotas: settings.quotas,
        share: settings.share.clone(),
    }
}

fn storage(bucket: &FaultyBucket, random: &SharedRandom, clock: &SharedClock) -> ObjectStorage {
    let (retry, patience) = (RetryPolicy::default(), TimeoutPolicy::default());
    ObjectStorage::over(
        bucket.clone(),
        retry,
        patience,
        clock.clone(),
        random.clone(),
    )
}

async fn security(settings: &Settings, meta: &SqliteMeta) -> Security {
    let users = scram_users(meta).await.expect("reads");
    let authorizer = match &settings.authorizer {
        Some(config) => {
            let loaded = authorizer(meta, config.clone()).await;
            Some(Arc::new(loaded.expect("reads")))
        }
        None => None,
    };
    let delegation = match settings.tokens.clone() {
        Some((config, clock)) => {
            let loaded = delegation_tokens(meta, config, clock).await;
            Some(Arc::new(loaded.expect("reads")))
        }
        None => None,
    };
    Security {
        authorizer,
        delegation,
        scram: Arc::new(users),
        ..(settings.security)()
    }
}

async fn stored_quotas(meta: &SqliteMeta) -> Arc<LiveQuotas> {
    let table = client_quotas(meta).await.expect("reads");
    Arc::new(LiveQuotas::new(table))
}

async fn open_wal(disk: &SimDisk, clock: &SharedClock) -> (Wal, RecoveredLog) {
    let mut recovered = RecoveredLog::default();
    let sink = &mut |record| recovered.push(&record);
    let opened = Wal::open_with(disk.attach(), WalConfig::new(7), clock.clone(), sink).await;
    (opened.expect("recovers"), recovered)
}

async fn start(
    disk: &SimDisk,
    bucket: &FaultyBucket,
    meta: &SqliteMeta,
    random: &SharedRandom,
    clock: &SharedClock,
    settings: &Settings,
) -> Running {
    let node = NodeId(5);
    let epoch = meta.register_node(node).await.expect("registers");
    let (wal, recovered) = open_wal(disk, clock).await;
    let storage = storage(bucket, random, clock);
    let shared: Arc<dyn MetaStore> = Arc::new(meta.clone());
    let cache = BlockCacheConfig::new("cluster", settings.block_cache_bytes);
    let block_cache = BlockCache::new(cache, storage.clone().into(), shared.clone(), clock.clone());
    let store = StreamStore::open(StreamParts {
        tasks: Supervisor::new(),
        wal,
        recovered,
        background: storage.clone(),
        storage,
        meta: shared.clone(),
        block_cache,
        clock: clock.clone(),
        random: random.clone(),
        cluster_id: "cluster".into(),
        node: (node, epoch),
        config: settings.streams.clone(),
    })
    .await
    .expect("opens");
    let logs = open_logs(&shared, &store, (random, clock), settings).await;
    let timers = Timers::new(clock.clone(), Supervisor::new());
    let producer_ids = Arc::new(ProducerIds::new(shared.clone()));
    let seams = (random, clock, &timers);
    let (share_coordinator, share_states) = share_coordinator(&logs, clock, &timers).await;
    let (groups, transactions) =
        coordinators(&logs, &producer_ids, seams, settings, &share_states).await;
    let network = Network::new(clock.clone(), Supervisor::new(), settings.network);
    let service = ApiService::new(ApiParts {
        tasks: Supervisor::new(),
        logs: logs.clone(),
        groups: groups.clone(),
        transactions: transactions.clone(),
        transaction_peers: Arc::new(NoPeers),
        share_coordinator: share_coordinator.clone(),
        share_states: settings.share_states(&share_states),
        producer_ids,
        meta: shared,
        clock: clock.clone(),
        random: random.clone(),
        timers,
        network: network.clone(),
        settings: Arc::new(KeptSettings::default()),
        security: security(settings, meta).await,
        quotas: stored_quotas(meta).await,
        resource_configs: resource_configs(meta).await.expect("reads"),
        config: config(settings),
    });
    Running {
        logs,
        groups,
        transactions,
        share_coordinator,
        share_states,
        store,
        service,
        network,
    }
}

async fn open_logs(
    meta: &Arc<dyn MetaStore>,
    store: &StreamStore,
    (random, clock): (&SharedRandom, &SharedClock),
    settings: &Settings,
) -> LogManager {
    LogManager::open(LogParts {
        tasks: Supervisor::new(),
        meta: Arc::clone(meta),
        store: store.clone(),
        clock: clock.clone(),
        random: random.clone(),
        shared: None,
        defaults: settings.defaults.clone(),
    })
    .await
    .expect("opens")
}

async fn coordinators(
    logs: &LogManager,
    producer_ids: &Arc<ProducerIds>,
    (random, clock, timers): (&SharedRandom, &SharedClock, &Timers),
    settings: &Settings,
    share_states: &Arc<dyn ShareStates>,
) -> (GroupCoordinator, TransactionCoordinator) {
    let groups = GroupCoordinator::open(CoordinatorParts {
        tasks: Supervisor::new(),
        topic: millrace_coordinator::consumer_offsets(logs),
        topics: Arc::new(logs.clone()),
        share_states: Arc::new(WatchedShareStates::new(share_states, &settings.share_watch)),
        clock: clock.clone(),
        random: random.clone(),
        timers: timers.clone(),
        config: settings.groups.clone(),
    })
    .await
    .expect("loads");
    let transactions = TransactionCoordinator::open(TransactionParts {
        topic: millrace_coordinator::transaction_state(logs),
        producer_ids: producer_ids.clone(),
        markers: Arc::new(HeldMarkers {
            inner: Markers::new(logs.clone(), groups.clone(), Arc::new(NoPeers)),
            gate: settings.markers.clone(),
        }),
        clock: clock.clone(),
        timers: timers.clone(),
        tasks: Supervisor::new(),
        config: TransactionConfig::default(),
    })
    .await
    .expect("loads");
    (groups, transactions)
}

async fn share_coordinator(
    logs: &LogManager,
    clock: &SharedClock,
    timers: &Timers,
) -> (ShareCoordinator, Arc<dyn ShareStates>) {
    let coordinator = ShareCoordinator::open(ShareCoordinatorParts {
        topic: millrace_coordinator::share_group_state(logs),
        topics: Arc::new(logs.clone()),
        clock: clock.clone(),
        timers: timers.clone(),
        tasks: Supervisor::new(),
        config: ShareStateConfig::default(),
    })
    .await
    .expect("loads");
    let peers = Arc::new(NoSharePeers);
    let states = ShareStateRouter::new(logs.clone(), coordinator.clone(), peers);
    (coordinator, Arc::new(states))
}
