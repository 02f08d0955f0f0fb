//! What comes back: a broker's answers to Produce, or the sink's.

use std::{
    error::Error,
    io::{self, Read},
    net::TcpStream,
};

use bytes::{Buf, BytesMut};
use millrace_bench::producer::ProduceAnswer;

use crate::roles::{schedule::Batches, sink};

/// Some hundred answers of a few partitions; a longer one takes several reads.
const READ_BYTES: usize = 16 << 10;
/// A frame's length.
const LENGTH_BYTES: usize = 4;

/// Bytes that came back and are not checked yet.
#[derive(Debug)]
pub(super) struct Answers {
    kind: Kind,
    bytes: BytesMut,
}

#[derive(Debug)]
enum Kind {
    /// By partition: the offset of its next batch.
    Kafka(Vec<i64>),
    /// Frames that were answered.
    Sink(u64),
}

/// What an answer says about a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AnswerState {
    /// It is not there yet.
    Incomplete,
    /// All its records are durable, where they belong.
    Complete,
    /// So many records are not, and why.
    Wrong(u64, String),
}

impl Answers {
    /// Answers of a broker, whose partitions have these ends.
    pub(super) fn kafka(ends: Vec<i64>) -> Self {
        Self::of(Kind::Kafka(ends))
    }

    /// Answers of the sink.
    pub(super) fn sink() -> Self {
        Self::of(Kind::Sink(0))
    }

    fn of(kind: Kind) -> Self {
        let bytes = BytesMut::new();
        Self { kind, bytes }
    }

    /// Reads once what is there.
    pub(super) fn read(&mut self, mut stream: &TcpStream) -> io::Result<()> {
        let filled = self.bytes.len();
        self.bytes.resize(filled + READ_BYTES, 0);
        let read = stream.read(&mut self.bytes[filled..]);
        self.bytes.truncate(filled + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Checks the answer to the oldest request that has none.
    ///
    /// # Errors
    /// What came is no answer at all, or one to another request.
    pub(super) fn next(
        &mut self,
        correlation_id: i32,
        batches: &Batches,
    ) -> Result<AnswerState, Box<dyn Error>> {
        match &mut self.kind {
            Kind::Sink(answered) => {
                if self.bytes.len() < sink::ANSWER_BYTES {
                    return Ok(AnswerState::Incomplete);
                }
                let number = self.bytes.get_u64();
                if number != *answered {
                    return Err(format!("frame {number} answered in place of {answered}").into());
                }
                *answered += 1;
                Ok(AnswerState::Complete)
            }
            Kind::Kafka(ends) => {
                let Some(length) = self.bytes.first_chunk::<LENGTH_BYTES>() else {
                    return Ok(AnswerState::Incomplete);
                };
                let length = u32::from_be_bytes(*length) as usize;
                if self.bytes.len() < LENGTH_BYTES + length {
                    return Ok(AnswerState::Incomplete);
                }
                self.bytes.advance(LENGTH_BYTES);
                let answer = ProduceAnswer::parse(self.bytes.split_to(length).freeze())?;
                if answer.correlation_id != correlation_id {
                    let other = answer.correlation_id;
                    return Err(format!("{other} answered in place of {correlation_id}").into());
                }
                Ok(check(&answer, batches, ends))
            }
        }
    }
}

/// Whether each batch of a request stands right behind the one before.
fn check(answer: &ProduceAnswer, batches: &Batches, ends: &mut [i64]) -> AnswerState {
    let partitions = ends.len();
    let (mut wrong, mut reason) = (0, None);
    for (n, &count) in batches.counts.iter().enumerate() {
        let partition = (batches.first_partition + n) % partitions;
        let mut of_it = answer
            .partitions
            .iter()
            .filter(|answer| answer.partition == partition as i32);
        let fault = match (of_it.next(), of_it.next()) {
            (Some(answer), None) if answer.error_code != 0 => {
                Some(format!("error {}", answer.error_code))
            }
            (Some(answer), None) if answer.base_offset != ends[partition] => {
                let (offset, expected) = (answer.base_offset, ends[partition]);
                Some(format!("stands at offset {offset}, not at {expected}"))
            }
            (Some(_), None) => None,
            (None, _) => Some("has no answer".to_owned()),
            (Some(_), Some(_)) => Some("has two answers".to_owned()),
        };
        match fault {
            None => ends[partition] += count as i64,
            Some(fault) => {
                wrong += count as u64;
                reason.get_or_insert(format!("a batch of partition {partition}: {fault}"));
            }
        }
    }
    reason.map_or(AnswerState::Complete, |reason| {
        AnswerState::Wrong(wrong, reason)
    })
}

#[cfg(test)]
mod tests {
    use millrace_bench::producer::PartitionAnswer;

    use super::*;

    fn answer(of: &[(i32, i16, i64)]) -> ProduceAnswer {
        let partition = |&(partition, error_code, base_offset): &(i32, i16, i64)| PartitionAnswer {
            partition,
            error_code,
            base_offset,
        };
        ProduceAnswer {
            correlation_id: 1,
            partitions: of.iter().map(partition).collect(),
        }
    }

    fn two_batches() -> Batches {
        Batches {
            first_partition: 2,
            counts: vec![5, 3],
            first_record: 0,
        }
    }

    #[test]
    fn offsets_must_follow_each_other_in_each_partition() {
        let mut ends = [10, 0, 20];
        let good = answer(&[(0, 0, 10), (2, 0, 20)]);
        assert_eq!(
            check(&good, &two_batches(), &mut ends),
            AnswerState::Complete
        );
        assert_eq!(ends, [13, 0, 25]);
        let again = check(&good, &two_batches(), &mut ends);
        assert!(matches!(again, AnswerState::Wrong(8, _)), "{again:?}");
    }

    #[test]
    fn an_error_a_missing_and_a_double_answer_are_counted() {
        let checked = |of: &[_]| check(&answer(of), &two_batches(), &mut [0; 3]);
        let cases: [(&[_], u64); 4] = [
            (&[(0, 0, 0), (2, 87, -1)], 5),
            (&[(2, 0, 0)], 3),
            (&[(0, 0, 0), (2, 0, 0), (2, 0, 0)], 5),
            (&[], 8),
        ];
        for (of, wrong) in cases {
            let state = checked(of);
            assert!(
                matches!(&state, AnswerState::Wrong(n, _) if *n == wrong),
                "{state:?}"
            );
        }
    }
}
