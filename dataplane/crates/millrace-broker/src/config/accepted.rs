//! Kafka's properties that no part of the broker reads. A value is accepted if what it asks for holds
//! anyway, so that a stock file starts; all others are rejected with a reason.
//!
//! Properties that Kafka 4 does not know either are reported as unknown, as Kafka does.

use std::collections::BTreeSet;

/// What a property of Kafka may be here.
#[derive(Debug, Clone, Copy)]
enum Accepts {
    /// Any value: what it asks for holds.
    Any,
    /// Only these values.
    Only(&'static [&'static str]),
    /// No value.
    Nothing,
}

use Accepts::{Any, Nothing, Only};

/// Properties with one reason.
struct Group {
    /// Names; one that ends with a dot stands for all that begin with it.
    keys: &'static [&'static str],
    accepts: Accepts,
    /// Why the accepted values hold, and others do not.
    because: &'static str,
}

/// Exact names come before the families that they belong to.
const GROUPS: &[Group] = &[
    Group {
        keys: &[
            "background.threads",
            "group.coordinator.threads",
            "num.io.threads",
            "num.network.threads",
            "num.recovery.threads.per.data.dir",
            "num.replica.alter.log.dirs.threads",
            "num.replica.fetchers",
            "share.coordinator.threads",
        ],
        accepts: Any,
        because: "the broker has as many threads as the machine has processors",
    },
    Group {
        keys: &["log.cleaner.threads"],
        accepts: Any,
        because: "the broker compacts one log at a time",
    },
    Group {
        keys: &[
            "group.coordinator.append.linger.ms",
            "group.coordinator.cached.buffer.max.bytes",
            "log.cleaner.io.buffer.load.factor",
            "log.cleaner.io.buffer.size",
            "offsets.load.buffer.size",
            "queued.max.requests",
            "share.coordinator.append.linger.ms",
            "share.coordinator.cached.buffer.max.bytes",
            "share.coordinator.load.buffer.size",
            "socket.listen.backlog.size",
            "socket.receive.buffer.bytes",
            "socket.send.buffer.bytes",
            "transaction.state.log.load.buffer.size",
        ],
        accepts: Any,
        because: "the broker and the operating system size these buffers and queues themselves, \
                  within memory.max.bytes",
    },
    Group {
        keys: &[
            "delete.records.purgatory.purge.interval.requests",
            "fetch.purgatory.purge.interval.requests",
            "producer.purgatory.purge.interval.requests",
        ],
        accepts: Any,
        because: "requests leave the queue of those that wait as soon as they are answered",
    },
    Group {
        keys: &[
            "log.dir",
            "log.dir.failure.timeout.ms",
            "log.dirs",
            "log.flush.offset.checkpoint.interval.ms",
            "log.flush.start.offset.checkpoint.interval.ms",
            "log.initial.task.delay.ms",
        ],
        accepts: Any,
        because: "there are no log directories: records are in the log volume and in the buckets, \
                  which s3.wal.path and s3.data.buckets name",
    },
    Group {
        keys: &[
            "broker.heartbeat.interval.ms",
            "controller.",
            "early.start.listeners",
            "initial.broker.registration.timeout.ms",
            "metadata.",
            "process.roles",
            "server.max.startup.time.ms",
        ],
        accepts: Any,
        because: "there are no controllers: brokers share their metadata in a database",
    },
    Group {
        keys: &[
            "inter.broker.listener.name",
            "sasl.mechanism.controller.protocol",
            "sasl.mechanism.inter.broker.protocol",
            "security.inter.broker.protocol",
        ],
        accepts: Any,
        because: "brokers reach each other at a listener of their own (inter.broker.listener)",
    },
    Group {
        keys: &[
            "alter.log.dirs.replication.quota.window.num",
            "alter.log.dirs.replication.quota.window.size.seconds",
            "controller.socket.timeout.ms",
            "offsets.commit.timeout.ms",
            "offsets.topic.replication.factor",
            "offsets.topic.segment.bytes",
            "replica.",
            "replication.quota.window.num",
            "replication.quota.window.size.seconds",
            "request.timeout.ms",
            "share.coordinator.state.topic.min.isr",
            "share.coordinator.state.topic.replication.factor",
            "share.coordinator.state.topic.segment.bytes",
            "transaction.state.log.min.isr",
            "transaction.state.log.replication.factor",
            "transaction.state.log.segment.bytes",
        ],
        accepts: Any,
        because: "brokers copy no records among each other: the storage replicates them",
    },
    Group {
        keys: &[
            "controlled.shutdown.max.retries",
            "controlled.shutdown.retry.backoff.ms",
        ],
        accepts: Any,
        because: "a broker that stops moves its partitions away within shutdown.drain.ms",
    },
    Group {
        keys: &["controlled.shutdown.enable"],
        accepts: Only(&["true"]),
        because: "a broker that stops always moves its partitions away",
    },
    Group {
        keys: &["delete.topic.enable"],
        accepts: Only(&["true"]),
        because: "topics can always be deleted: deny the operation Delete with ACLs",
    },
    Group {
        keys: &["auto.leader.rebalance.enable"],
        accepts: Only(&["true"]),
        because: "set leader.balance.interval.ms to 0 to leave partitions where they are",
    },
    Group {
        keys: &["leader.imbalance.check.interval.seconds"],
        accepts: Only(&["300"]),
        because: "set leader.balance.interval.ms instead",
    },
    Group {
        keys: &["leader.imbalance.per.broker.percentage"],
        accepts: Only(&["10"]),
        because: "brokers are balanced at once, by leader.balance.interval.ms",
    },
    Group {
        keys: &["log.cleaner.io.max.bytes.per.second"],
        accepts: Only(&["1.7976931348623157E308", "1.7976931348623157e308"]),
        because: "set s3.network.baseline.bandwidth, which holds for all transfers",
    },
    Group {
        keys: &["offsets.topic.compression.codec"],
        accepts: Only(&["0"]),
        because: "committed offsets are not compressed",
    },
    Group {
        keys: &["share.coordinator.state.topic.compression.codec"],
        accepts: Only(&["0"]),
        because: "the state of share partitions is not compressed",
    },
    Group {
        keys: &[
            "share.coordinator.cold.partition.snapshot.interval.ms",
            "share.coordinator.state.topic.prune.interval.ms",
        ],
        accepts: Any,
        because: "the broker drops records of the topic as soon as enough of them are outdated",
    },
    Group {
        keys: &["group.coordinator.rebalance.protocols"],
        accepts: Only(&["classic,consumer", "consumer,classic"]),
        because: "the broker always serves the classic and the consumer protocol",
    },
    Group {
        keys: &["group.consumer.regex.refresh.interval.ms"],
        accepts: Only(&["600000"]),
        because: "patterns are matched again every 10 minutes and when topics change",
    },
    Group {
        keys: &["transaction.partition.verification.enable"],
        accepts: Only(&["true"]),
        because: "the broker always verifies that partitions are in the transaction",
    },
    Group {
        keys: &["transaction.two.phase.commit.enable"],
        accepts: Only(&["false"]),
        because: "the broker does not support two-phase commit",
    },
    Group {
        keys: &["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
        accepts: Any,
        because: "the broker aborts a transaction as soon as its timeout has passed",
    },
    Group {
        keys: &[
            "unstable.api.versions.enable",
            "unstable.feature.versions.enable",
        ],
        accepts: Only(&["false"]),
        because: "there are no unstable versions",
    },
    Group {
        keys: &["remote.log.storage.system.enable"],
        accepts: Only(&["false"]),
        because: "there is no tiered storage: the records of all topics are in object storage",
    },
    Group {
        keys: &["remote."],
        accepts: Any,
        because: "as in Kafka, it holds while remote.log.storage.system.enable is false",
    },
    Group {
        keys: &[
            "kafka.metrics.polling.interval.secs",
            "metrics.num.samples",
            "metrics.recording.level",
            "metrics.sample.window.ms",
        ],
        accepts: Any,
        because: "metrics are counters, which whoever collects them samples",
    },
    Group {
        keys: &["auto.include.jmx.reporter"],
        accepts: Any,
        because: "there is no JMX: metrics are served over the admin HTTP",
    },
    Group {
        keys: &["metric.reporters"],
        accepts: Only(&["org.apache.kafka.common.metrics.JmxReporter"]),
        because: "Java classes cannot be loaded: metrics are served over the admin HTTP",
    },
    Group {
        keys: &["kafka.metrics.reporters"],
        accepts: Nothing,
        because: "Java classes cannot be loaded: metrics are served over the admin HTTP",
    },
    Group {
        keys: &[
            "alter.config.policy.class.name",
            "client.quota.callback.class",
            "config.providers",
            "create.topic.policy.class.name",
            "principal.builder.class",
            "sasl.client.callback.handler.class",
            "sasl.login.callback.handler.class",
            "sasl.login.class",
            "sasl.server.callback.handler.class",
            "security.providers",
            "ssl.engine.factory.class",
        ],
        accepts: Nothing,
        because: "Java classes cannot be loaded",
    },
    Group {
        keys: &["sasl.kerberos."],
        accepts: Nothing,
        because: "Kerberos is not supported: use SCRAM, PLAIN or OAUTHBEARER",
    },
    Group {
        keys: &["group.share.", "group.streams."],
        accepts: Nothing,
        because: "there are no groups of this protocol",
    },
    Group {
        keys: &[
            "group.consumer.",
            "share.coordinator.",
            "transaction.",
            "transactional.",
        ],
        accepts: Nothing,
        because: "the broker does not implement this property",
    },
    Group {
        keys: &[
            "ssl.cipher.suites",
            "ssl.client.auth",
            "ssl.enabled.protocols",
            "ssl.endpoint.identification.algorithm",
            "ssl.key.password",
            "ssl.keystore.",
            "ssl.principal.mapping.rules",
            "ssl.protocol",
            "ssl.truststore.",
            "sasl.enabled.mechanisms",
            "sasl.jaas.config",
            "sasl.login.",
            "sasl.oauthbearer.",
            "sasl.server.max.receive.size",
        ],
        accepts: Any,
        because: "no listener uses it, or the default holds",
    },
    Group {
        keys: &[
            "ssl.allow.dn.changes",
            "ssl.allow.san.changes",
            "ssl.keymanager.algorithm",
            "ssl.provider",
            "ssl.secure.random.implementation",
            "ssl.trustmanager.algorithm",
        ],
        accepts: Any,
        because: "it steers Java's TLS, which the broker does not use",
    },
];

fn find(key: &str) -> Option<&'static Group> {
    let is_it = |name: &str| match name.ends_with('.') {
        true => key.starts_with(name),
        false => key == name,
    };
    let exact = GROUPS.iter().find(|group| group.keys.contains(&key));
    exact.or_else(|| {
        GROUPS
            .iter()
            .find(|group| group.keys.iter().any(|name| is_it(name)))
    })
}

/// Whether it is a property of Kafka that no part of the broker reads.
pub(super) fn is_known(key: &str) -> bool {
    find(key).is_some()
}

/// Why no part of the broker reads it.
pub(crate) fn reason(key: &str) -> Option<&'static str> {
    find(key).map(|group| group.because)
}

/// Why a value of such a property is not accepted, and what to do.
pub(super) fn check(key: &str, value: &str) -> Result<(), Rejected> {
    let Some(group) = find(key) else {
        return Ok(());
    };
    let rejected = |remedy: String| {
        Err(Rejected {
            problem: format!("{value:?} is not supported: {}", group.because),
            remedy,
        })
    };
    match group.accepts {
        Any => Ok(()),
        Only(values) if values.iter().any(|legal| legal.eq_ignore_ascii_case(value)) => Ok(()),
        Only(values) => rejected(format!("write {}, or remove the line", values.join(" or "))),
        Nothing => rejected("remove the line".to_owned()),
    }
}

/// A value that is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rejected {
    pub(super) problem: String,
    pub(super) remedy: String,
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
        for (key, value) in [
            ("process.roles", "broker,controller"),
            ("controller.quorum.bootstrap.servers", "localhost:9093"),
            ("num.network.threads", "3"),
            ("socket.send.buffer.bytes", "102400"),
            ("log.dirs", "/tmp/kraft-combined-logs"),
            ("offsets.topic.replication.factor", "1"),
            ("share.coordinator.state.topic.min.isr", "1"),
            ("transaction.state.log.min.isr", "1"),
            ("group.coordinator.rebalance.protocols", "classic,consumer"),
            ("group.consumer.regex.refresh.interval.ms", "600000"),
            ("transaction.partition.verification.enable", "true"),
            ("transaction.two.phase.commit.enable", "false"),
        ] {
            assert!(is_known(key), "{key}");
            assert_eq!(check(key, value), Ok(()), "{key}");
        }
        for (key, value) in [
            ("group.coordinator.rebalance.protocols", "classic"),
            ("transaction.partition.verification.enable", "false"),
            ("transaction.two.phase.commit.enable", "true"),
            ("group.consumer.unheard.of", "1"),
        ] {
            assert!(check(key, value).is_err(), "{key}={value}");
        }
        assert!(!is_known("s3.wal.path"));
        assert!(!is_known("zookeeper.connect"), "gone in Kafka 4");
    }

    #[test]
    fn what_does_not_hold_is_rejected_with_a_reason_and_a_remedy() {
        let rejected = check("delete.topic.enable", "false").expect_err("rejected");
        assert_eq!(
            rejected.problem,
            "\"false\" is not supported: topics can always be deleted: deny the operation Delete \
             with ACLs"
        );
        assert_eq!(rejected.remedy, "write true, or remove the line");
        for (key, value) in [
            ("remote.log.storage.system.enable", "true"),
            ("create.topic.policy.class.name", "a.B"),
            ("sasl.kerberos.service.name", "kafka"),
            ("metric.reporters", "a.B"),
            ("controlled.shutdown.enable", "false"),
        ] {
            assert!(check(key, value).is_err(), "{key}");
        }
    }
}
