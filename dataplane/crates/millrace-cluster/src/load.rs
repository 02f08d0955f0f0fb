//! The load of the partitions that this broker leads. Each broker measures its own and reports it, so that the one that balances
//! knows all.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    time::Duration,
};

use millrace_log::Usage;
use millrace_meta::{BrokerLoad, PartitionLoad};
use millrace_model::TopicPartition;
use millrace_time::SharedClock;

use crate::cluster::View;

/// A request costs as much as so many bytes.
const REQUEST_BYTES: u64 = 8 * 1024;

/// Partitions that a report names: the busiest.
const PARTITIONS_MAX: usize = 200;

/// The weight of a new measurement in the moving average is one in so many: short peaks move nothing.
const SMOOTHING: u64 = 4;

/// The longest interval between two reports.
pub(crate) const REPORT_INTERVAL: Duration = Duration::from_secs(30);

/// The interval between two reports, for a given interval of balancing.
pub(crate) fn interval(balancing: Duration) -> Duration {
    match balancing.is_zero() {
        true => REPORT_INTERVAL,
        false => balancing.min(REPORT_INTERVAL),
    }
}

/// Measures and reports for ever.
pub(super) async fn run(view: View, interval: Duration, clock: SharedClock) -> Infallible {
    let mut meter = Meter::default();
    meter.measure(view.logs.usage(), clock.now());
    loop {
        tokio::time::sleep(interval).await;
        let load = meter.measure(view.logs.usage(), clock.now());
        let told = view
            .membership
            .store
            .report_load(view.membership.epoch, &load);
        if let Err(error) = told.await {
            tracing::debug!(%error, "the other brokers do not learn this one's load");
        }
    }
}

/// Makes rates of counts.
#[derive(Debug, Default)]
struct Meter {
    at: Duration,
    /// Of each partition: its counts, and its rate so far.
    partitions: HashMap<TopicPartition, (Usage, u64)>,
}

impl Meter {
    /// The load since the last time, smoothed. Of a partition that was opened since, the counts began at 0.
    fn measure(&mut self, usage: Vec<(TopicPartition, Usage)>, now: Duration) -> BrokerLoad {
        let millis = now.saturating_sub(self.at).as_millis().max(1);
        let before = std::mem::take(&mut self.partitions);
        self.at = now;
        let mut loads = BTreeMap::new();
        for (partition, used) in usage {
            // Reopened since: its counts begin at 0.
            let known = before.get(&partition);
            let known = known.filter(|(last, _)| last.requests <= used.requests);
            let (last, rate) = known.copied().unwrap_or_default();
            let requests = used.requests.saturating_sub(last.requests);
            let bytes = used.bytes.saturating_sub(last.bytes);
            let cost = bytes.saturating_add(requests.saturating_mul(REQUEST_BYTES));
            let current = u64::try_from(u128::from(cost) * 1_000 / millis).unwrap_or(u64::MAX);
            let rate = match known {
                Some(_) => (rate / SMOOTHING * (SMOOTHING - 1)).saturating_add(current / SMOOTHING),
                None => current,
            };
            loads.insert(partition.clone(), rate);
            self.partitions.insert(partition, (used, rate));
        }
        summary(loads)
    }
}

fn summary(loads: BTreeMap<TopicPartition, u64>) -> BrokerLoad {
    let total = loads
        .values()
        .fold(0_u64, |sum, &load| sum.saturating_add(load));
    let busy = loads.into_iter().filter(|(_, load)| *load > 0);
    let mut partitions: Vec<PartitionLoad> = busy
        .map(|(partition, load)| PartitionLoad { partition, load })
        .collect();
    partitions.sort_by_key(|one| Reverse(one.load));
    partitions.truncate(PARTITIONS_MAX);
    BrokerLoad { total, partitions }
}

#[cfg(test)]
mod tests {
    use millrace_model::TopicName;

    use super::*;

    fn partition(partition: u32) -> TopicPartition {
        let topic = TopicName::new("t").expect("legal");
        TopicPartition { topic, partition }
    }

    #[test]
    fn counts_become_rates_that_follow_slowly() {
        let mut meter = Meter::default();
        let second = Duration::from_secs(1);
        let used = |bytes, requests| vec![(partition(0), Usage { bytes, requests })];
        // What was there before the first look is no rate.
        let _ = meter.measure(used(0, 0), second);
        let load = meter.measure(used(81_920, 10), 2 * second);
        assert_eq!(load.total, (81_920 + 10 * REQUEST_BYTES) / SMOOTHING);
        let load = meter.measure(used(81_920, 10), 3 * second);
        assert_eq!(
            load.total,
            (81_920 + 10 * REQUEST_BYTES) / SMOOTHING / SMOOTHING * (SMOOTHING - 1)
        );
        // It moved away and came back: its counts begin at 0.
        let load = meter.measure(Vec::new(), 4 * second);
        assert_eq!(
            load,
            BrokerLoad {
                total: 0,
                partitions: Vec::new()
            }
        );
        let load = meter.measure(used(100, 1), 5 * second);
        assert_eq!(load.total, 100 + REQUEST_BYTES);
    }

    #[test]
    fn a_report_names_the_busiest() {
        let loads = (0..500).map(|index| (partition(index), u64::from(index)));
        let load = summary(loads.collect());
        assert_eq!(load.total, 499 * 500 / 2);
        assert_eq!(load.partitions.len(), PARTITIONS_MAX);
        let first = load.partitions.first().expect("some");
        assert_eq!((first.partition.partition, first.load), (499, 499));
    }
}
