//! Who reads how far behind, how fast, and how long that will take: `/v1/catch-up`.
//!
//! | module | what it holds |
//! |---|---|
//! | `rate` | rates of what comes in lumps |
//! | `estimator` | one group on one partition, over time |
//! | `pressure` | what readers wait for: the limiters and the bucket |
//! | `elsewhere` | where partitions begin and end that other brokers lead |
//! | `tracker` | looks at all groups every second, and when asked |
//! | `answer` | the shape of the answer |
//!
//! A group's position on a partition is what it has committed; the start of the log where a member is
//! assigned the partition and nothing is committed yet. What its members have fetched since
//! is not told by their requests, which name no group; so a position is up to one commit interval
//! old, 5 seconds by default.

mod answer;
mod elsewhere;
mod estimator;
mod pressure;
mod rate;
mod tracker;

use millrace_blockcache::BlockCache;
use millrace_limiter::Network;
use millrace_model::NodeId;
use millrace_objects::ObjectStorage;
use millrace_time::{SharedClock, rfc3339};

use self::answer::{BucketReadsAnswer, CacheAnswer, CallsAnswer, DirectionAnswer, NetworkAnswer};
pub(crate) use self::{
    answer::CatchUpAnswer, elsewhere::Elsewhere, pressure::Pressure, tracker::Tracker,
};

/// What the answer is made from.
#[derive(Debug)]
pub(crate) struct CatchUp {
    pub(crate) node_id: NodeId,
    pub(crate) clock: SharedClock,
    pub(crate) tracker: Tracker,
    pub(crate) block_cache: BlockCache,
    pub(crate) network: Network,
    pub(crate) bucket: ObjectStorage,
}

impl CatchUp {
    pub(crate) fn answer(&self) -> CatchUpAnswer {
        let (groups, truncated) = self.tracker.answer();
        let pressure = self.tracker.pressure();
        let calls = self.bucket.calls().into_iter();
        CatchUpAnswer {
            time: rfc3339::format(self.clock.wall_ms()),
            node_id: self.node_id.get(),
            cache: CacheAnswer::new(&self.block_cache.metrics()),
            network: NetworkAnswer {
                ingress: DirectionAnswer::new(&self.network.ingress, &pressure.ingress),
                egress: DirectionAnswer::new(&self.network.egress, &pressure.egress),
            },
            bucket_calls: calls
                .filter(|calls| calls.calls > 0)
                .map(CallsAnswer::new)
                .collect(),
            bucket_reads: BucketReadsAnswer::new(&pressure.reads),
            groups,
            truncated,
        }
    }
}
