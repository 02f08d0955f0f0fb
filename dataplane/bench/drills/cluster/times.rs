//! How long partitions waited, by disruption.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use millrace_bench::cluster::{Ack, Percentiles, first_acks, longest_gaps};
use serde_json::{Value, json};

use crate::deck::Disruption;

/// All times so far.
#[derive(Debug)]
pub(crate) struct Times {
    partitions: i32,
    runs: BTreeMap<Disruption, Runs>,
}

#[derive(Debug, Default)]
struct Runs {
    count: u64,
    /// Of the partitions that were hit: from the disruption to the first acknowledgement of a record handed over after it.
    first_acks: Vec<Duration>,
    /// Of the same: the longest time without an acknowledgement.
    gaps: Vec<Duration>,
    /// The same of all others.
    gaps_elsewhere: Vec<Duration>,
}

impl Times {
    pub(crate) fn of(partitions: i32) -> Self {
        Self {
            partitions,
            runs: BTreeMap::new(),
        }
    }

    /// Adds one disruption, which began at `from`, had happened at `since` and was over at `to`; prints what it meant for the
    /// partitions that were `hit`.
    pub(crate) fn add(
        &mut self,
        disruption: Disruption,
        acks: &[Ack],
        (from, since, to): (Duration, Duration, Duration),
        hit: &BTreeSet<i32>,
    ) {
        let is_hit = |partition: usize| {
            i32::try_from(partition).is_ok_and(|partition| hit.contains(&partition))
        };
        let first: Vec<Duration> = first_acks(acks, self.partitions, since)
            .into_iter()
            .enumerate()
            .filter_map(|(partition, took)| took.filter(|_| is_hit(partition)))
            .collect();
        let (mut gaps, mut elsewhere) = (Vec::new(), Vec::new());
        for (partition, gap) in longest_gaps(acks, self.partitions, (from, to))
            .into_iter()
            .enumerate()
        {
            let list = if is_hit(partition) {
                &mut gaps
            } else {
                &mut elsewhere
            };
            list.push(gap);
        }
        let shown = |times: &[Duration]| {
            let times = Percentiles::of(times.iter().copied());
            times.map_or_else(|| "none".to_owned(), |times| times.to_string())
        };
        println!(
            "  {}: {} partitions hit; first acknowledgement {}; longest gap {}; elsewhere {}",
            disruption.name(),
            hit.len(),
            shown(&first),
            shown(&gaps),
            shown(&elsewhere),
        );
        let runs = self.runs.entry(disruption).or_default();
        runs.count += 1;
        runs.first_acks.extend(first);
        runs.gaps.extend(gaps);
        runs.gaps_elsewhere.extend(elsewhere);
    }

    /// Percentiles over all partitions of all runs of each disruption.
    pub(crate) fn json(&self) -> Value {
        let percentiles =
            |times: &[Duration]| Percentiles::of(times.iter().copied()).map(Percentiles::json);
        let runs = self.runs.iter().map(|(disruption, runs)| {
            let shown = json!({
                "count": runs.count,
                "first_ack": percentiles(&runs.first_acks),
                "gap": percentiles(&runs.gaps),
                "gap_elsewhere": percentiles(&runs.gaps_elsewhere),
            });
            (disruption.name().to_owned(), shown)
        });
        Value::Object(runs.collect())
    }
}

#[cfg(test)]
mod tests {
    use millrace_bench::drill::Place;

    use super::*;

    #[test]
    fn only_partitions_that_were_hit_count() {
        let ms = Duration::from_millis;
        let ack = |partition, at| Ack {
            place: Place {
                producer: 0,
                partition,
                sequence: 0,
            },
            offset: None,
            sent_at: ms(at),
            acked_at: ms(at),
        };
        let mut times = Times::of(2);
        let acks = [ack(0, 140), ack(1, 110), ack(1, 140)];
        let hit = BTreeSet::from([0]);
        times.add(Disruption::Kill, &acks, (ms(90), ms(100), ms(150)), &hit);
        let shown = &times.json()["kill"];
        assert_eq!(shown["first_ack"]["max_ms"], 40.0);
        assert_eq!(shown["gap"]["max_ms"], 50.0);
        assert_eq!(shown["gap_elsewhere"]["max_ms"], 30.0);
    }
}
