//! What Kafka's own performance tools print.

/// What `kafka-producer-perf-test` measured. Its MB are MiB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Produced {
    /// Records per second.
    pub records_per_s: f64,
    /// MiB per second.
    pub mib_per_s: f64,
    /// Latencies in milliseconds.
    pub avg_ms: f64,
    /// The greatest one.
    pub max_ms: f64,
    /// The median.
    pub p50_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
    /// The 99.9th percentile.
    pub p999_ms: f64,
}

impl Produced {
    /// Reads the last line, such as `60000 records sent, 3389.83 records/sec (211.86 MB/sec), 130.12 ms
    /// avg latency, 366.00 ms max latency, 128 ms 50th, 200 ms 95th, 340 ms 99th, 360 ms 99.9th.`
    /// Nothing where it is none or not all records were sent.
    #[must_use]
    pub fn parse(records: u64, text: &str) -> Option<Self> {
        let line = text.lines().rev().find(|line| line.contains(" 99.9th"))?;
        let mut parts = line.trim_end_matches('.').split(", ");
        if number_before(parts.next()?, "records sent")? != records as f64 {
            return None;
        }
        let (rate, mib) = parts.next()?.split_once(" records/sec (")?;
        Some(Self {
            records_per_s: rate.trim().parse().ok()?,
            mib_per_s: number_before(mib, "MB/sec)")?,
            avg_ms: number_before(parts.next()?, "ms avg latency")?,
            max_ms: number_before(parts.next()?, "ms max latency")?,
            p50_ms: number_before(parts.next()?, "ms 50th")?,
            p99_ms: number_before(parts.nth(1)?, "ms 99th")?,
            p999_ms: number_before(parts.next()?, "ms 99.9th")?,
        })
    }
}

fn number_before(part: &str, unit: &str) -> Option<f64> {
    part.trim_end().strip_suffix(unit)?.trim().parse().ok()
}

/// What `kafka-consumer-perf-test` measured, joining its group included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Consumed {
    /// Records per second.
    pub records_per_s: f64,
    /// MiB per second, including the time to join the group.
    pub mib_per_s: f64,
    /// MiB per second, excluding that time.
    pub fetched_mib_per_s: f64,
}

impl Consumed {
    /// Reads the last line, whose columns are start, end, MB, MB/s, records, records/s, ms of joining and of fetching,
    /// MB/s and records/s of fetching. Nothing where it is none or fewer records came.
    #[must_use]
    pub fn parse(records: u64, text: &str) -> Option<Self> {
        let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
        let columns: Vec<&str> = line.split(',').map(str::trim).collect();
        let number = |at: usize| columns.get(at)?.parse::<f64>().ok();
        if number(4)? < records as f64 {
            return None;
        }
        Some(Self {
            records_per_s: number(5)?,
            mib_per_s: number(3)?,
            fetched_mib_per_s: number(8)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRODUCED: &str = "\
5026 records sent, 1002.2 records/sec (62.64 MB/sec), 179.1 ms avg latency, 3062.0 ms max latency.
30000 records sent, 2638.986629 records/sec (164.94 MB/sec), 130.27 ms avg latency, \
3062.00 ms max latency, 124 ms 50th, 224 ms 95th, 259 ms 99th, 278 ms 99.9th.
";
    const CONSUMED: &str = "\
2026-11-22 10:00:00:100, 2026-11-22 10:00:02:100, 195.3125, 97.6563, 200000, 100000.0000, 311, 1689, \
115.6379, 118413.2623
";

    #[test]
    fn the_last_line_of_the_producer_is_understood() {
        let expected = Produced {
            records_per_s: 2_638.986_629,
            mib_per_s: 164.94,
            avg_ms: 130.27,
            max_ms: 3_062.0,
            p50_ms: 124.0,
            p99_ms: 259.0,
            p999_ms: 278.0,
        };
        assert_eq!(Produced::parse(30_000, PRODUCED), Some(expected));
    }

    #[test]
    fn a_run_that_did_not_send_everything_is_none() {
        assert_eq!(Produced::parse(30_001, PRODUCED), None);
        let first_line = PRODUCED.lines().next().expect("two lines");
        assert_eq!(Produced::parse(5_026, first_line), None);
        assert_eq!(Produced::parse(1, "Exception in thread \"main\""), None);
    }

    #[test]
    fn the_last_line_of_the_consumer_is_understood() {
        let expected = Consumed {
            records_per_s: 100_000.0,
            mib_per_s: 97.6563,
            fetched_mib_per_s: 115.6379,
        };
        assert_eq!(Consumed::parse(200_000, CONSUMED), Some(expected));
        assert_eq!(Consumed::parse(200_001, CONSUMED), None);
        assert_eq!(Consumed::parse(1, "WARNING: timed out"), None);
    }
}
