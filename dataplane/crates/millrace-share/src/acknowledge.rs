//! Acknowledgements of members: checked, and applied.

use std::ops::RangeInclusive;

use millrace_model::Offset;

use crate::{
    in_flight::{InFlightRecords, State},
    persist::Settled,
};

/// What a member says of the records of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acknowledgement {
    first: Offset,
    last: Offset,
    /// One for all records, or one for each.
    outcomes: Vec<Settled>,
}

/// What no acknowledgement can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAcknowledgement {
    /// The last offset is below the first one, or one is negative.
    #[error("the offsets of an acknowledgement are not a range")]
    Range,
    /// Not behind the range before it.
    #[error("the ranges of acknowledgements overlap or are not in order")]
    Order,
    /// Neither one type nor as many as there are offsets.
    #[error("the number of acknowledge types does not match the offsets")]
    Types,
    /// A type that is not known.
    #[error("the acknowledge type {0} is not known")]
    UnknownType(i8),
}

/// Why acknowledgements do not apply. Then none of them was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AcknowledgeError {
    /// The member does not hold all of the records.
    #[error("the member does not hold the records that it acknowledges")]
    NotAcquired,
    /// The records were never delivered to anybody.
    #[error("records are acknowledged that were not acquired yet")]
    BeyondEnd,
}

/// Reads the acknowledgements of one partition, as requests have them: first offset, last offset and types.
///
/// # Errors
/// [`InvalidAcknowledgement`].
pub fn acknowledgements<'a>(
    asked: impl IntoIterator<Item = (i64, i64, &'a [i8])>,
) -> Result<Vec<Acknowledgement>, InvalidAcknowledgement> {
    let mut all: Vec<Acknowledgement> = Vec::new();
    for (first, last, types) in asked {
        let offset = |at: i64| Offset::try_from(at).map_err(|_| InvalidAcknowledgement::Range);
        let (first, last) = (offset(first)?, offset(last)?);
        if last < first {
            return Err(InvalidAcknowledgement::Range);
        }
        if all.last().is_some_and(|before| first <= before.last) {
            return Err(InvalidAcknowledgement::Order);
        }
        let is_for_each = u64::try_from(types.len()) == Ok(last - first + 1);
        if types.len() != 1 && !is_for_each {
            return Err(InvalidAcknowledgement::Types);
        }
        let outcomes: Result<Vec<Settled>, _> = types.iter().copied().map(outcome).collect();
        all.push(Acknowledgement {
            first,
            last,
            outcomes: outcomes?,
        });
    }
    Ok(all)
}

/// What an acknowledge type says of a record: KIP-932's accept, release and reject, and 0 for offsets without a record.
const fn outcome(acknowledge_type: i8) -> Result<Settled, InvalidAcknowledgement> {
    match acknowledge_type {
        0 | 3 => Ok(Settled::Archived),
        1 => Ok(Settled::Acknowledged),
        2 => Ok(Settled::Available),
        unknown => Err(InvalidAcknowledgement::UnknownType(unknown)),
    }
}

impl Acknowledgement {
    /// The ranges of records with the same outcome.
    fn ranges(&self) -> impl Iterator<Item = (RangeInclusive<Offset>, Settled)> {
        let mut first = self.first;
        let is_for_all = self.outcomes.len() == 1;
        self.outcomes
            .chunk_by(Settled::eq)
            .filter_map(move |alike| {
                let count = u64::try_from(alike.len()).ok()?;
                let last = match is_for_all {
                    true => self.last,
                    false => first + count - 1,
                };
                let range = first..=last;
                first = last.saturating_add(1);
                alike.first().map(|outcome| (range, *outcome))
            })
    }
}

impl InFlightRecords {
    /// Takes a member's acknowledgements. They count once the write is durable whose number this gives; it is still to begin.
    /// `None` where nothing has to be written: all of the records are done, because the log starts later.
    ///
    /// # Errors
    /// [`AcknowledgeError`].
    pub fn acknowledge(
        &mut self,
        member: &str,
        acknowledgements: &[Acknowledgement],
    ) -> Result<Option<u64>, AcknowledgeError> {
        let in_flight = self.range();
        for of in acknowledgements
            .iter()
            .filter(|of| of.last >= in_flight.start)
        {
            if of.last >= in_flight.end {
                return Err(AcknowledgeError::BeyondEnd);
            }
            if !self.holds(member, of.first.max(in_flight.start)..=of.last) {
                return Err(AcknowledgeError::NotAcquired);
            }
        }
        let limit = self.limits.delivery_count;
        let mut any = false;
        for (range, outcome) in acknowledgements.iter().flat_map(Acknowledgement::ranges) {
            let range = (*range.start()).max(in_flight.start)..=*range.end();
            if range.is_empty() {
                continue;
            }
            any = true;
            self.change_range(range, |_, batch| {
                if let State::Acquired(lock) = &batch.state {
                    batch.state = State::Settling {
                        lock: lock.clone(),
                        to: outcome.within(limit, batch.deliveries),
                        is_in_write: false,
                    };
                }
            });
        }
        Ok(any.then(|| self.next_write()))
    }
}
