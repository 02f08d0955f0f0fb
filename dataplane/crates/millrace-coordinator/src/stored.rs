//! What the log holds of a group in parts, each with a record of its own: what it will hold once all is written, and what is durable.

use std::{collections::BTreeMap, fmt};

use crate::records::GroupRecord;

/// What a record is about.
pub(crate) trait Part: Ord + Clone + fmt::Debug {
    /// What a record says.
    type Value: Clone + PartialEq + fmt::Debug;

    /// What a record costs in memory, in bytes.
    fn bytes(&self, value: &Self::Value) -> u64;

    /// The record of a group.
    fn record(group: &str, change: Change<Self>) -> GroupRecord;

    /// What the record says; `None` where it is of another kind.
    fn of_record(record: GroupRecord) -> Option<Change<Self>>;
}

/// What a value costs in memory for each copy: in the group itself, and in both tables of [`Stored`].
pub(crate) const COPIES: u64 = 3;

/// Values by what they are about.
pub(crate) type Parts<P> = BTreeMap<P, <P as Part>::Value>;

/// A new value for the log; none deletes.
pub(crate) type Change<P> = (P, Option<<P as Part>::Value>);

/// See the module.
#[derive(Debug)]
pub(crate) struct Stored<P: Part> {
    /// What the log holds once all that was pushed is written.
    latest: Parts<P>,
    /// What is durable.
    durable: Parts<P>,
    /// What was pushed and not taken yet.
    pending: Vec<Change<P>>,
    /// A write failed: the log lacks something that will not come by itself.
    lacks: bool,
    bytes: u64,
}

impl<P: Part> Default for Stored<P> {
    fn default() -> Self {
        Self::restored(Parts::<P>::new())
    }
}

impl<P: Part> Stored<P> {
    /// What was read from the log.
    pub(crate) fn restored(parts: Parts<P>) -> Self {
        let bytes = parts.iter().map(|(part, value)| part.bytes(value)).sum();
        Self {
            latest: parts.clone(),
            durable: parts,
            pending: Vec::new(),
            lacks: false,
            bytes,
        }
    }

    /// A new value for the log; none deletes.
    pub(crate) fn push(&mut self, part: P, value: Option<P::Value>) {
        let before = match &value {
            Some(value) => {
                self.bytes += part.bytes(value);
                self.latest.insert(part.clone(), value.clone())
            }
            None => self.latest.remove(&part),
        };
        if let Some(before) = &before {
            self.bytes -= part.bytes(before);
        }
        if before.is_some() || value.is_some() {
            self.pending.push((part, value));
        }
    }

    /// Whether the log will hold nothing about this.
    pub(crate) fn lacks(&self, part: &P) -> bool {
        !self.latest.contains_key(part)
    }

    /// The records to be written since the last call, oldest first. `is_settled` where no write is on its way.
    pub(crate) fn take_records(&mut self, group: &str, is_settled: bool) -> Vec<GroupRecord> {
        let mut changes = std::mem::take(&mut self.pending);
        if self.lacks && is_settled {
            self.lacks = false;
            changes = self.missing();
        }
        let record = |change| P::record(group, change);
        changes.into_iter().map(record).collect()
    }

    /// What turns `durable` into `latest`.
    fn missing(&self) -> Vec<Change<P>> {
        let gone = { self.durable.keys() }.filter(|part| !self.latest.contains_key(part));
        let is_new = |(part, value): &(&P, &P::Value)| self.durable.get(part) != Some(*value);
        let new = self.latest.iter().filter(is_new);
        let gone = gone.map(|part| (part.clone(), None));
        gone.chain(new.map(|(part, value)| (part.clone(), Some(value.clone()))))
            .collect()
    }

    /// A write has reached the log, or could not.
    pub(crate) fn write_finished(&mut self, records: Vec<GroupRecord>, durable: bool) {
        self.lacks |= !durable;
        let changes = records.into_iter().filter_map(P::of_record);
        for (part, value) in changes.filter(|_| durable) {
            match value {
                Some(value) => {
                    self.durable.insert(part, value);
                }
                None => {
                    self.durable.remove(&part);
                }
            }
        }
    }

    /// The live records.
    pub(crate) fn durable_records(&self, group: &str) -> impl Iterator<Item = GroupRecord> {
        let durable = self.durable.iter();
        durable.map(move |(part, value)| P::record(group, (part.clone(), Some(value.clone()))))
    }

    /// The number of live records.
    pub(crate) fn durable_count(&self) -> usize {
        self.durable.len()
    }

    /// What the log will hold.
    #[cfg(test)]
    pub(crate) const fn latest(&self) -> &Parts<P> {
        &self.latest
    }

    /// What the group costs, in bytes.
    pub(crate) const fn memory_bytes(&self) -> u64 {
        COPIES * self.bytes
    }

    /// Deletes all that the log will hold.
    pub(crate) fn delete_all(&mut self) {
        for part in self.latest.keys().cloned().collect::<Vec<_>>() {
            self.push(part, None);
        }
    }
}
