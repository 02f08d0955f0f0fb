//! Who reads how far behind, how fast, and how long that will take: `/v1/catch-up`.
//!
//! | module | what it holds |
//! |---|---|
//! | `rate` | rates of what comes in lumps |
//! | `estimator` | one group on one partition, over time |
//! | `tracker` | looks at all groups every second |
//! | `answer` | the shape of the answer |
//!
//! A group's position on a partition is what it has committed; the start of the log where a member is
//! assigned the partition and nothing is committed yet. What its members have fetched since
//! is not told by their requests, which name no group; so a position is up to one commit interval
//! old, 5 seconds by default.

mod answer;
mod estimator;
mod rate;
mod tracker;

use millrace_blockcache::BlockCache;
use millrace_limiter::Network;
use millrace_model::NodeId;
use millrace_objects::ObjectStorage;
use millrace_time::SharedClock;

use self::answer::{CacheAnswer, CallsAnswer, DirectionAnswer, NetworkAnswer};
pub(crate) use self::{answer::CatchUpAnswer, tracker::Tracker};

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
        let calls = self.bucket.calls().into_iter();
        CatchUpAnswer {
            time: rfc3339(self.clock.wall_ms()),
            node_id: self.node_id.get(),
            cache: CacheAnswer::new(&self.block_cache.stats()),
            network: NetworkAnswer {
                ingress: DirectionAnswer::new(&self.network.ingress),
                egress: DirectionAnswer::new(&self.network.egress),
            },
            bucket_calls: calls
                .filter(|calls| calls.calls > 0)
                .map(CallsAnswer::new)
                .collect(),
            groups,
            truncated,
        }
    }
}

/// Milliseconds since 1970 as RFC 3339 in UTC. Days are counted as Howard Hinnant's
/// `civil_from_days` does, in eras of 400 years from 1 March of year 0.
fn rfc3339(wall_ms: i64) -> String {
    const DAY_MS: i64 = 86_400_000;
    let (days, ms) = (wall_ms.div_euclid(DAY_MS), wall_ms.rem_euclid(DAY_MS));
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (seconds, ms) = (ms / 1_000, ms % 1_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn times_are_written_as_everybody_does() {
        for (wall_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_827_696_789, "2000-02-29T12:34:56.789Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (4_102_444_799_000, "2099-12-31T23:59:59.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(rfc3339(wall_ms), text);
        }
    }
}
