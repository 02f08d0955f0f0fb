//! What of a partition may be cleaned, and whether it is due.

use millrace_model::Offset;

use crate::{config::TopicConfig, partition::PartitionLog, segments::Segments};

/// The part of a log that is to be cleaned next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Dirty {
    /// Its first offset. Everything below has been cleaned.
    pub(crate) first: Offset,
    /// One past its last offset.
    pub(crate) end: Offset,
    /// Its share of the bytes below its end, from 0 to 1.
    pub(crate) ratio: f64,
    /// Whether its first record has waited for as long as `max.compaction.lag.ms` allows.
    pub(crate) is_overdue: bool,
}

/// Where a log stands.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    log_start: Offset,
    first_dirty: Offset,
    /// Nothing from here on may be cleaned, however old it is.
    limit: Offset,
    now_ms: i64,
}

impl Dirty {
    /// Whether it should be cleaned now.
    pub(crate) fn is_due(&self, config: &TopicConfig) -> bool {
        self.is_overdue || self.ratio > config.min_cleanable_dirty_ratio()
    }

    #[expect(clippy::cast_precision_loss, reason = "a ratio of sizes")]
    fn of(segments: &Segments, config: &TopicConfig, bounds: Bounds) -> Option<Self> {
        let Bounds {
            log_start,
            first_dirty,
            limit,
            now_ms,
        } = bounds;
        let first = first_dirty.max(log_start);
        let segment_bytes = config.segment_bytes as u64;
        let segment_ms = config.segment_ms.min(config.max_compaction_lag_ms);
        let older_than = |ms: i64| now_ms.saturating_sub(ms.max(0));
        let (closed_ms, settled_ms) = (
            older_than(segment_ms),
            older_than(config.min_compaction_lag_ms),
        );
        let closed = segments.end_of_run(Offset::MAX, |segment, behind_bytes| {
            let is_closed = behind_bytes >= segment_bytes || segment.max_timestamp <= closed_ms;
            let is_settled =
                config.min_compaction_lag_ms == 0 || segment.max_timestamp <= settled_ms;
            (is_closed && is_settled).then_some(())
        });
        let end = closed.map_or(0, |(end, ())| end).min(limit);
        if end <= first {
            return None;
        }
        let clean = segments.bytes_between(log_start, first);
        let dirty = segments.bytes_between(first, end);
        let oldest_ms = segments.begins_at(first);
        Some(Self {
            first,
            end,
            ratio: dirty as f64 / (clean + dirty).max(1) as f64,
            is_overdue: oldest_ms.is_some_and(|at| at <= older_than(config.max_compaction_lag_ms)),
        })
    }
}

impl PartitionLog {
    /// What may be cleaned now; `None` where there is nothing, or the topic is not compacted.
    pub(crate) fn dirty(&self) -> Option<Dirty> {
        let config = self.config();
        if !config.compacts() || self.is_closed() || self.offline().is_some() {
            return None;
        }
        let limit = self.committed_offset().min(self.last_stable_offset());
        let state = self.state.lock();
        let bounds = Bounds {
            log_start: self.start_offset(),
            first_dirty: state.first_dirty,
            limit,
            now_ms: self.clock.wall_ms(),
        };
        Dirty::of(&state.segments, &config, bounds)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{LogDefaults, segments::Appended};

    const MIB: u64 = 1024 * 1024;

    fn config(overrides: &[(&str, &str)]) -> TopicConfig {
        let overrides: BTreeMap<String, String> = overrides
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        TopicConfig::resolve(&LogDefaults::default(), &overrides).expect("legal")
    }

    /// Ten batches of 1 MiB and 10 offsets each, a minute apart, the first one at 0.
    fn segments() -> Segments {
        let mut segments = Segments::default();
        for n in 0..10 {
            segments.append(Appended {
                base_offset: n * 10,
                end_offset: n * 10 + 10,
                max_timestamp: n as i64 * 60_000,
                bytes: MIB,
            });
        }
        segments
    }

    fn dirty(overrides: &[(&str, &str)], first_dirty: Offset, now_ms: i64) -> Option<Dirty> {
        let bounds = Bounds {
            log_start: 0,
            first_dirty,
            limit: 95,
            now_ms,
        };
        Dirty::of(&segments(), &config(overrides), bounds)
    }

    #[test]
    fn the_active_part_is_not_cleaned() {
        assert_eq!(dirty(&[], 0, 600_000), None, "1 GiB or 7 days");
        let by_bytes = dirty(&[("segment.bytes", "3145728")], 0, 600_000).expect("some");
        assert_eq!((by_bytes.first, by_bytes.end), (0, 70));
        let by_time = dirty(&[("segment.ms", "120000")], 0, 600_000).expect("some");
        assert_eq!(by_time.end, 90);
        let all = dirty(&[("segment.ms", "100")], 0, 600_000).expect("some");
        assert_eq!(all.end, 95, "no more than is in objects and stable");
        let lag = [("segment.ms", "100"), ("min.compaction.lag.ms", "300000")];
        assert_eq!(dirty(&lag, 0, 600_000).expect("some").end, 60);
        assert_eq!(dirty(&[("segment.ms", "100")], 95, 600_000), None);
    }

    #[test]
    fn the_ratio_or_the_age_makes_it_due() {
        let due = |overrides: &[(&str, &str)], first_dirty| {
            let dirty = dirty(overrides, first_dirty, 600_000);
            dirty.is_some_and(|dirty| dirty.is_due(&config(overrides)))
        };
        let ratio = |ratio| [("segment.ms", "100"), ("min.cleanable.dirty.ratio", ratio)];
        assert!(due(&ratio("0.5"), 0));
        assert!(!due(&ratio("0.5"), 60));
        assert!(due(&ratio("0.3"), 60));
        assert!(!due(&ratio("1.0"), 0));
        let overdue = |ms| {
            [
                ("min.cleanable.dirty.ratio", "1"),
                ("max.compaction.lag.ms", ms),
            ]
        };
        assert!(due(&overdue("300000"), 10));
        assert!(!due(&overdue("300000"), 70), "its records are too young");
    }
}
