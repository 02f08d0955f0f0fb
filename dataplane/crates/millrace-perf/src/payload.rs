//! The values of records.

use millrace_time::Random;

use crate::mark::{MARK_BYTES, Mark};

/// Values that are drawn in turn: so many that no compression finds two in one batch alike, and
/// few enough to stay in the cache with records of 1 KiB. Drawing each byte anew would measure the
/// random number generator.
const VALUES: usize = 64;
/// More than this is not held for values; large ones are fewer.
const POOL_BYTES_MAX: usize = 16 << 20;

/// Random values, made once.
#[derive(Debug)]
pub(crate) struct Payload {
    values: Vec<Vec<u8>>,
    next: usize,
}

impl Payload {
    pub(crate) fn new(record_bytes: usize, random: &dyn Random) -> Self {
        let count = (POOL_BYTES_MAX / record_bytes.max(1)).clamp(1, VALUES);
        let value = || {
            let words = record_bytes.div_ceil(8);
            let mut value: Vec<u8> = (0..words)
                .flat_map(|_| random.next_u64().to_le_bytes())
                .collect();
            value.truncate(record_bytes);
            value
        };
        Self {
            values: (0..count).map(|_| value()).collect(),
            next: 0,
        }
    }

    /// The next value, with the mark if there is one.
    pub(crate) fn next(&mut self, mark: Option<&Mark>) -> &[u8] {
        self.next = (self.next + 1) % self.values.len();
        let value = &mut self.values[self.next];
        if let Some(mark) = mark {
            debug_assert!(value.len() >= MARK_BYTES);
            mark.write(value);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use millrace_time::SeededRandom;

    use super::*;
    use crate::mark::{Marked, run_id};

    #[test]
    fn values_have_their_size_and_carry_marks() {
        let random = SeededRandom::shared(1);
        let mut payload = Payload::new(101, random.as_ref());
        let first = payload.next(None).to_vec();
        assert_eq!(first.len(), 101);
        assert_ne!(payload.next(None), first);
        let mark = Mark {
            run: run_id(5),
            producer: 1,
            number: 2,
            due_us: 3,
        };
        assert_eq!(
            Mark::read(payload.next(Some(&mark)), true),
            Marked::Sound(mark)
        );
        assert!(Payload::new(0, random.as_ref()).next(None).is_empty());
        assert_eq!(Payload::new(16 << 20, random.as_ref()).values.len(), 1);
    }
}
