//! What is lost, against what was promised and what the report says.

use std::collections::BTreeMap;

use millrace_bench::drill::{Acked, Promises};
use serde_json::Value;

/// Between an acknowledgement's leaving the broker and the client's noting the time: of two moments
/// that are closer than this, nothing can be told.
const CLOCK_SLACK_MS: i64 = 100;

/// What a report of `millrace recover --json` says of missing records.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) source: String,
    /// By partition: offsets from, to (excluded).
    missing: BTreeMap<i32, (i64, i64)>,
    known_to_ms: i64,
}

impl Report {
    /// Reads the report, of which the topic's partitions count.
    pub(crate) fn read(json: &[u8], topic: &str) -> Result<Self, String> {
        let text = String::from_utf8_lossy(json);
        let value: Value =
            serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
        let number = |value: &Value| value.as_str().and_then(|text| text.parse::<i64>().ok());
        let wrong = || format!("the report is not as documented: {text}");
        let mut missing = BTreeMap::new();
        for range in value["missing"].as_array().ok_or_else(wrong)? {
            if range["topic"] == topic {
                let partition = range["partition"].as_i64().ok_or_else(wrong)?;
                let partition = i32::try_from(partition).map_err(|_| wrong())?;
                let from = number(&range["from_offset"]).ok_or_else(wrong)?;
                let to = number(&range["to_offset"]).ok_or_else(wrong)?;
                if missing.insert(partition, (from, to)).is_some() {
                    return Err(format!("partition {partition} is reported twice: {text}"));
                }
            }
        }
        let known_to = value["acknowledged_known_to"].as_str().ok_or_else(wrong)?;
        Ok(Self {
            source: value["source"].as_str().ok_or_else(wrong)?.to_owned(),
            missing,
            known_to_ms: wall_ms(known_to).ok_or_else(wrong)?,
        })
    }

    pub(crate) fn is_nothing_missing(&self) -> bool {
        self.missing.is_empty()
    }

    /// Checks that an acknowledged batch which is gone from `end` on is one that the report names.
    fn check_lost(&self, acked: &Acked, end: i64) -> Result<(), String> {
        let partition = acked.first.partition;
        let last = acked.base_offset + i64::from(acked.count) - 1;
        let named = self.missing.get(&partition);
        if named.is_some_and(|&(from, to)| from <= end.max(acked.base_offset) && last < to) {
            return Ok(());
        }
        if acked.wall_ms + CLOCK_SLACK_MS > self.known_to_ms {
            return Ok(());
        }
        Err(format!(
            "partition {partition}: {acked:?} is lost, the partition ends at {end}, and the report, which \
             knows what was acknowledged up to {}, names {named:?}",
            self.known_to_ms
        ))
    }
}

/// What was lost.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Lost {
    pub(crate) batches: u64,
    pub(crate) records: u64,
}

/// Splits the promises at the ends of the recovered partitions: what lies below must be there, what
/// lies beyond is lost, and the report must say so.
pub(crate) fn split(
    promises: &Promises,
    ends: &BTreeMap<i32, i64>,
    report: &Report,
) -> Result<(Promises, Lost), String> {
    let mut kept = promises.clone();
    let mut lost = Lost::default();
    // What producers were told without offsets can only be judged by what is lost.
    kept.durable.clear();
    for (partition, batches) in &mut kept.acked {
        let end = ends.get(partition).copied().unwrap_or(0);
        for acked in batches.iter() {
            let beyond = acked.base_offset + i64::from(acked.count) - end;
            if beyond > 0 {
                report.check_lost(acked, end)?;
                lost.batches += 1;
                lost.records += u64::from(acked.count).min(beyond.unsigned_abs());
            }
        }
        batches.retain(|acked| acked.base_offset + i64::from(acked.count) <= end);
    }
    Ok((kept, lost))
}

/// A moment as the report writes it: in UTC, with milliseconds.
fn wall_ms(text: &str) -> Option<i64> {
    let field = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (field(0, 4)?, field(5, 7)?, field(8, 10)?);
    let (hour, minute, second, ms) = (
        field(11, 13)?,
        field(14, 16)?,
        field(17, 19)?,
        field(20, 23)?,
    );
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [
        31,
        28 + i64::from(leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let months = usize::try_from(month - 1).ok()?;
    let years: i64 = (1970..year).map(|year| 365 + i64::from(leap(year))).sum();
    let days = years + lengths.get(..months)?.iter().sum::<i64>() + day - 1;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000 + ms)
}

#[cfg(test)]
mod tests {
    use millrace_bench::drill::Place;

    use super::*;

    fn report() -> Report {
        let json = br#"{"source":"bucket","missing":[
            {"topic":"t","partition":1,"from_offset":"5","to_offset":"9"},
            {"topic":"other","partition":1,"from_offset":"0","to_offset":"99"}],
            "acknowledged_known_to":"2024-03-01T00:00:00.123Z"}"#;
        Report::read(json, "t").expect("sound")
    }

    fn promises(base_offset: i64, count: u32, wall_ms: i64) -> Promises {
        let mut promises = Promises::default();
        let first = Place {
            producer: 0,
            partition: 1,
            sequence: 0,
        };
        promises.acknowledge(first, count, 10, Some(base_offset), wall_ms);
        promises
    }

    #[test]
    fn only_what_is_named_or_was_too_late_may_be_lost() {
        let report = report();
        assert_eq!(report.known_to_ms, 1_709_251_200_123);
        let early = report.known_to_ms - 1_000;
        let judge = |base, count, at| {
            let ends = BTreeMap::from([(1, 5)]);
            split(&promises(base, count, at), &ends, &report).map(|(_, lost)| lost.records)
        };
        assert_eq!(judge(0, 5, early), Ok(0));
        assert_eq!(judge(5, 4, early), Ok(4));
        assert_eq!(judge(3, 4, early), Ok(2));
        judge(7, 3, early).expect_err("reaches beyond what is named");
        assert_eq!(judge(9, 3, report.known_to_ms), Ok(3));
    }
}
