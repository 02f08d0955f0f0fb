//! Kafka's properties that are accepted and have no effect here, so that a stock file starts.

use std::collections::BTreeSet;

/// They steer threads, files, replicas and controllers that this broker does not have.
const WITHOUT_EFFECT: &[&str] = &[
    "background.threads",
    "broker.id",
    "compression.type",
    "controlled.shutdown.enable",
    "delete.topic.enable",
    "inter.broker.listener.name",
    "inter.broker.protocol.version",
    "log.dir",
    "log.dirs",
    "log.flush.interval.messages",
    "log.flush.interval.ms",
    "log.message.format.version",
    "log.roll.hours",
    "log.roll.ms",
    "log.segment.bytes",
    "min.insync.replicas",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "offsets.topic.replication.factor",
    "offsets.topic.segment.bytes",
    "process.roles",
    "queued.max.requests",
    "reserved.broker.max.id",
    "security.inter.broker.protocol",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
    "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
    "unclean.leader.election.enable",
];

/// Families of such properties.
const PREFIXES_WITHOUT_EFFECT: &[&str] = &[
    "controller.quorum.",
    "group.coordinator.",
    "log.cleaner.",
    "metadata.log.",
    "replica.",
    "sasl.",
    "ssl.",
    "zookeeper.",
];

pub(super) fn is_accepted(key: &str) -> bool {
    WITHOUT_EFFECT.contains(&key) || PREFIXES_WITHOUT_EFFECT.iter().any(|p| key.starts_with(p))
}

/// The known key that a misspelt one was probably meant to be.
pub(crate) fn nearest<'a>(key: &str, known: &BTreeSet<&'a str>) -> Option<&'a str> {
    /// Two slips of the finger; more is another word.
    const EDITS_MAX: usize = 2;
    let nearest = known
        .iter()
        .map(|&candidate| (edits(key, candidate), candidate))
        .min()?;
    (nearest.0 <= EDITS_MAX).then_some(nearest.1)
}

/// Levenshtein's distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let replace = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance() {
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("same", "same"), 0);
    }

    #[test]
    fn a_stock_kafka_file_is_accepted() {
        for key in [
            "num.io.threads",
            "controller.quorum.voters",
            "log.dirs",
            "ssl.keystore.type",
        ] {
            assert!(is_accepted(key), "{key}");
        }
        assert!(!is_accepted("s3.wal.path"));
    }
}
