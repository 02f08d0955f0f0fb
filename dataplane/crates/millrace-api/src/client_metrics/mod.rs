//! Metrics that clients push (KIP-714): what they are asked for, and what they sent last.
//!
//! | part | what it is |
//! |---|---|
//! | `subscription` | the CLIENT_METRICS resources: which metrics, how often, of which clients |
//! | `instances` | the clients that have asked what to push, and what they pushed last |
//! | `otlp` | the format of what they push |
//! | `shown` | what people are shown of it |

mod instances;
mod otlp;
mod shown;
pub(crate) mod subscription;

use std::{collections::BTreeMap, sync::Arc};

use metrics::{Counter, Gauge, counter, gauge};
use millrace_record::{Compression, InvalidBatch};
use millrace_time::{SharedClock, SharedRandom};
use millrace_wire::error_code::ErrorCode;
use parking_lot::{Mutex, RwLock};
use uuid::Uuid;

pub(crate) use self::instances::Attributes;
use self::{
    instances::{Instances, Pushing},
    otlp::Values,
    subscription::Subscriptions,
};
pub use self::{
    otlp::ClientMetricValue,
    shown::{
        CLIENT_METRICS_SHOWN_MAX, ClientMetric, ClientMetricsFilter, MeasuredClient,
        MeasuredClients,
    },
};

/// `telemetry.max.bytes` by default: Kafka's 1 MiB.
pub const TELEMETRY_BYTES_MAX: usize = 1024 * 1024;

/// Kafka's compressions of pushed metrics, the preferred first.
const COMPRESSIONS: [Compression; 4] = [
    Compression::Zstd,
    Compression::Lz4,
    Compression::Gzip,
    Compression::Snappy,
];

/// Ids that Kafka never gives out: 0 and 1.
const RESERVED_IDS_MAX: u128 = 1;

/// What a client is told to push.
#[derive(Debug)]
pub(crate) struct Requested {
    pub(crate) id: Uuid,
    pub(crate) subscription_id: i32,
    pub(crate) compressions: Vec<i8>,
    pub(crate) interval_ms: i32,
    pub(crate) bytes_max: i32,
    pub(crate) metrics: Vec<String>,
}

/// What a client pushes.
#[derive(Debug)]
pub(crate) struct Push<'a> {
    pub(crate) id: Uuid,
    pub(crate) subscription_id: i32,
    pub(crate) is_terminating: bool,
    pub(crate) compression: i8,
    pub(crate) metrics: &'a [u8],
}

/// The metrics of all clients.
#[derive(Debug)]
pub(crate) struct ClientMetrics {
    clock: SharedClock,
    random: SharedRandom,
    bytes_max: usize,
    subscriptions: RwLock<Arc<Subscriptions>>,
    instances: Mutex<Instances>,
    left_out: Counter,
    known: Gauge,
    series_bytes: Gauge,
}

impl ClientMetrics {
    /// `bytes_max`: `telemetry.max.bytes`, what a client may push at a time, compressed and decompressed.
    pub(crate) fn new(clock: SharedClock, random: SharedRandom, bytes_max: usize) -> Self {
        Self {
            clock,
            random,
            bytes_max,
            subscriptions: RwLock::default(),
            instances: Mutex::default(),
            left_out: counter!("millrace_client_metrics_left_out_total"),
            known: gauge!("millrace_client_metrics_clients"),
            series_bytes: gauge!("millrace_client_metrics_bytes"),
        }
    }

    /// Replaces the subscriptions; one call at a time. Clients learn of a change with their next request.
    pub(crate) fn subscribe<'a>(
        &self,
        all: impl IntoIterator<Item = (&'a str, &'a BTreeMap<String, String>)>,
    ) {
        let present = Arc::clone(&*self.subscriptions.read());
        // Compiles hundreds of patterns, and no client waits for that.
        if let Some(changed) = present.changed_to(all) {
            *self.subscriptions.write() = Arc::new(changed);
        }
    }

    /// What a client is to push; `id` is nil where it has none yet.
    ///
    /// # Errors
    /// It asks too often.
    pub(crate) fn requested(&self, id: Uuid, client: &Attributes) -> Result<Requested, ErrorCode> {
        let subscriptions = Arc::clone(&*self.subscriptions.read());
        let now = self.clock.now();
        let (id, assigned) = {
            let mut instances = self.instances.lock();
            instances.expire(now);
            let id = match id.is_nil() {
                true => self.new_id(&instances),
                false => id,
            };
            let assigned = instances.get(id, (client, &subscriptions), now);
            self.measure(&instances);
            (id, assigned?)
        };
        let (metrics, _) = instances::asked_of(&subscriptions, id, client);
        let number = |number: u128| i32::try_from(number).unwrap_or(i32::MAX);
        Ok(Requested {
            id,
            subscription_id: assigned.subscription_id,
            compressions: COMPRESSIONS.map(code).to_vec(),
            interval_ms: number(assigned.interval.as_millis()),
            bytes_max: i32::try_from(self.bytes_max).unwrap_or(i32::MAX),
            metrics,
        })
    }

    fn new_id(&self, instances: &Instances) -> Uuid {
        loop {
            let bytes = self.random.next_bytes16();
            let id = uuid::Builder::from_random_bytes(bytes).into_uuid();
            if !instances.contains(id) {
                return id;
            }
        }
    }

    /// Takes what a client pushes.
    ///
    /// # Errors
    /// The code is Kafka's.
    pub(crate) fn push(&self, push: &Push<'_>, client: &Attributes) -> Result<(), ErrorCode> {
        let pushed = self.try_push(push, client);
        let result = match pushed {
            Ok(()) => "accepted",
            Err(ErrorCode::ThrottlingQuotaExceeded) => "too_early",
            Err(ErrorCode::UnknownSubscriptionId) => "unknown_subscription",
            Err(_) => "refused",
        };
        counter!("millrace_client_metrics_pushes_total", "result" => result).increment(1);
        pushed
    }

    fn try_push(&self, push: &Push<'_>, client: &Attributes) -> Result<(), ErrorCode> {
        if push.id.as_u128() <= RESERVED_IDS_MAX {
            return Err(ErrorCode::InvalidRequest);
        }
        let subscriptions = Arc::clone(&*self.subscriptions.read());
        let now = self.clock.now();
        let pushing = Pushing {
            id: push.id,
            subscription_id: push.subscription_id,
            is_terminating: push.is_terminating,
        };
        let check = || {
            compression(push.compression)?;
            match push.metrics.len() > self.bytes_max {
                true => Err(ErrorCode::TelemetryTooLarge),
                false => Ok(()),
            }
        };
        {
            let mut instances = self.instances.lock();
            instances.expire(now);
            instances.begin_push(pushing, (client, &subscriptions), check, now)?;
        }
        let values = self.read(push);
        let outcome = values.as_ref().map(drop).map_err(|error| *error);
        let mut instances = self.instances.lock();
        let left_out = instances.end_push(push.id, values, self.clock.wall_ms());
        self.left_out
            .increment(u64::try_from(left_out).unwrap_or(u64::MAX));
        self.measure(&instances);
        outcome
    }

    /// The values in what is pushed. Not under the lock: this takes as long as the client likes.
    fn read(&self, push: &Push<'_>) -> Result<Values, ErrorCode> {
        let compression = compression(push.compression)?;
        let decompressed = compression.decompress(push.metrics, self.bytes_max);
        let bytes = decompressed.map_err(|error| match error {
            InvalidBatch::DecompressedTooLarge => ErrorCode::TelemetryTooLarge,
            _ => ErrorCode::InvalidRecord,
        })?;
        otlp::parse(&bytes).map_err(|_| ErrorCode::InvalidRecord)
    }

    fn measure(&self, instances: &Instances) {
        #[expect(clippy::cast_precision_loss, reason = "bounded far below 2^52")]
        let number = |number: usize| number as f64;
        self.known.set(number(instances.len()));
        self.series_bytes.set(number(instances.series_bytes()));
    }

    /// What clients have pushed last, for people.
    pub(crate) fn shown(&self, filter: &ClientMetricsFilter) -> MeasuredClients {
        let mut instances = self.instances.lock();
        instances.expire(self.clock.now());
        self.measure(&instances);
        shown::shown(&instances, filter)
    }
}

fn compression(code: i8) -> Result<Compression, ErrorCode> {
    let known = u8::try_from(code).ok().map(Compression::from_id);
    match known {
        Some(Ok(compression)) => Ok(compression),
        _ => Err(ErrorCode::UnsupportedCompressionType),
    }
}

/// The number of a compression.
const fn code(compression: Compression) -> i8 {
    compression as i8
}

#[cfg(test)]
mod tests;
