//! Which timestamps a topic takes (`message.timestamp.type`, `message.timestamp.before.max.ms` and
//! `message.timestamp.after.max.ms`).

use std::ops::RangeInclusive;

use millrace_log::TopicConfig;
use millrace_record::{BatchHeader, RecordsSummary, TimestampType};
use millrace_wire::error_code::ErrorCode;

use crate::topics::Refused;

const ANY: RangeInclusive<i64> = i64::MIN..=i64::MAX;

/// The timestamps that producers may give records now, milliseconds.
pub(super) fn legal(config: &TopicConfig, now_ms: i64) -> RangeInclusive<i64> {
    match config.timestamp_type {
        // The broker gives them.
        TimestampType::LogAppendTime => ANY,
        TimestampType::CreateTime => {
            let earliest = now_ms.saturating_sub(config.timestamp_before_max_ms);
            earliest..=now_ms.saturating_add(config.timestamp_after_max_ms)
        }
    }
}

/// Checks what was seen of a batch. Like Kafka, a topic with create times takes a batch that claims append times, and
/// takes them for create times.
pub(super) fn check(
    header: &BatchHeader,
    config: &TopicConfig,
    (summary, legal): (&RecordsSummary, &RangeInclusive<i64>),
) -> Result<(), Refused> {
    let is_stamped = header.timestamp_type() == TimestampType::LogAppendTime;
    let refused = |records| {
        let message = "One or more records have been rejected due to invalid timestamp";
        Err(Refused::new(ErrorCode::InvalidTimestamp, message).with_records(records))
    };
    if is_stamped && config.timestamp_type == TimestampType::LogAppendTime {
        let message = "Producers must not set the timestamp type to LogAppendTime.";
        return refused(vec![(0, message.to_owned())]);
    }
    if summary.invalid_timestamps.is_empty() {
        return Ok(());
    }
    let (earliest, latest) = (legal.start(), legal.end());
    let record = |record: &millrace_record::InvalidTimestamp| {
        let message = format!(
            "Timestamp {} is out of range. The timestamp should be within [{earliest}, {latest}]",
            record.timestamp
        );
        (record.index, message)
    };
    refused(summary.invalid_timestamps.iter().map(record).collect())
}
