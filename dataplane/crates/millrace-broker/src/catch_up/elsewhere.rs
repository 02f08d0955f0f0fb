//! Partitions of groups that this broker coordinates and other brokers lead: where they begin and end, asked for every second.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use millrace_client::{
    Admin, Client, RequestError,
    admin::{ListedOffset, OffsetSpec, Results},
};
use millrace_model::{Offset, TopicPartition};
use parking_lot::Mutex;

/// The pause between two rounds.
const INTERVAL: Duration = Duration::from_secs(1);

/// What other brokers have told. A clone is the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Elsewhere(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// As many as are followed of all groups, at most.
    wanted: BTreeSet<TopicPartition>,
    known: HashMap<TopicPartition, Span>,
}

/// A partition that another broker leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// The first offset that can be read.
    pub(crate) start: Offset,
    /// One past the last offset that can be read.
    pub(crate) end: Offset,
    /// Bytes of all of it.
    pub(crate) bytes: u64,
}

impl Span {
    /// Bytes between two offsets, as if all records were equally large.
    pub(crate) fn bytes_between(self, from: Offset, to: Offset) -> u64 {
        let records = u128::from(self.end.saturating_sub(self.start).max(1));
        let bytes = u128::from(self.bytes) * u128::from(to.saturating_sub(from)) / records;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

impl Elsewhere {
    /// What is known of a partition; `None` where nobody has told yet.
    pub(crate) fn span(&self, partition: &TopicPartition) -> Option<Span> {
        self.0.lock().known.get(partition).copied()
    }

    /// These are asked about from now on, and no others.
    pub(super) fn want(&self, wanted: BTreeSet<TopicPartition>) {
        let mut state = self.0.lock();
        state.known.retain(|known, _| wanted.contains(known));
        state.wanted = wanted;
    }

    /// Asks until the broker stops.
    pub(crate) async fn run(self, client: Client) -> Infallible {
        let admin = Admin::new(&client);
        loop {
            tokio::time::sleep(INTERVAL).await;
            let wanted = self.0.lock().wanted.clone();
            if wanted.is_empty() {
                continue;
            }
            match ask(&admin, &wanted).await {
                Ok(spans) => self.0.lock().known.extend(spans),
                Err(error) => {
                    tracing::debug!(%error, "where other brokers' partitions end is not known");
                }
            }
        }
    }
}

async fn ask(
    admin: &Admin,
    wanted: &BTreeSet<TopicPartition>,
) -> Result<Vec<(TopicPartition, Span)>, RequestError> {
    let named: BTreeMap<millrace_client::TopicPartition, &TopicPartition> =
        wanted.iter().map(|of| (of_client(of), of)).collect();
    let each = |spec| named.keys().map(move |name| (name.clone(), spec)).collect();
    let (starts, ends, sizes) = tokio::try_join!(
        admin.list_offsets(each(OffsetSpec::Earliest)),
        admin.list_offsets(each(OffsetSpec::Latest)),
        admin.partition_sizes(named.keys().cloned()),
    )?;
    let offset = |of: &Results<_, ListedOffset>, name| -> Option<Offset> {
        let listed = of.get(name)?.as_ref().ok()?;
        Offset::try_from(listed.offset?).ok()
    };
    let spans = named.iter().filter_map(|(name, partition)| {
        let (start, end) = (offset(&starts, name)?, offset(&ends, name)?);
        let span = Span {
            start: start.min(end),
            end,
            bytes: *sizes.get(name)?.as_ref().ok()?,
        };
        Some(((*partition).clone(), span))
    });
    Ok(spans.collect())
}

fn of_client(partition: &TopicPartition) -> millrace_client::TopicPartition {
    let index = i32::try_from(partition.partition).unwrap_or(i32::MAX);
    millrace_client::TopicPartition::new(partition.topic.as_str(), index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_spread_over_records() {
        let span = Span {
            start: 100,
            end: 300,
            bytes: 2_000,
        };
        assert_eq!(span.bytes_between(100, 300), 2_000);
        assert_eq!(span.bytes_between(290, 300), 100);
        assert_eq!(span.bytes_between(300, 290), 0);
        let empty = Span {
            start: 7,
            end: 7,
            bytes: 0,
        };
        assert_eq!(empty.bytes_between(0, 7), 0);
    }
}
