//! Partitions that a client has left out of its session, because it may still hold records of them.
//!
//! Java's consumer 3.x asks for a partition again when its application has taken what was fetched before, and has one
//! request under way to a broker. If that request waits for partitions that are read to their end, the consumer
//! cannot ask for the others for all of `fetch.max.wait.ms`, half a second. Consumers of 4.1 send no such request
//! (KAFKA-17182). So while partitions are left out, a request waits only briefly, and longer each time the client
//! changes nothing. Once it would wait as long as the client asks for, it is not about those partitions any more.
//!
//! The count does not tell which partitions return:
//!
//! - New ones count as such, which costs one wait of full length.
//! - While one does not come back and others come and go, every request waits briefly. At most 100 a second do.
//! - Once requests wait in full again, those that are still out do not count any more.
//! - A session that begins without partitions of which the client holds records does not know of them.

/// Milliseconds. Most applications take longer for what a fetch returns.
const FIRST_WAIT_MS: i32 = 10;

/// How many partitions were left out, and for how long a request waits meanwhile.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    partitions: usize,
    wait_ms: i32,
}

impl LeftOut {
    /// Takes in how many partitions a request has added and left out. Returns for how long it waits, in milliseconds, where
    /// it asks for `asked_ms`.
    pub(super) fn wait_ms(&mut self, added: usize, left_out: usize, asked_ms: i32) -> i32 {
        self.partitions = (self.partitions + left_out).saturating_sub(added);
        if self.partitions == 0 {
            return asked_ms;
        }
        self.wait_ms = match added + left_out {
            0 => self.wait_ms.saturating_add(self.wait_ms / 2),
            _ => FIRST_WAIT_MS,
        };
        if self.wait_ms >= asked_ms {
            self.partitions = 0;
        }
        self.wait_ms.min(asked_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: i32 = 500;

    #[test]
    fn requests_wait_briefly_and_longer_each_time_until_no_partition_is_left_out() {
        let mut session = LeftOut::default();
        assert_eq!(session.wait_ms(0, 0, ASKED), ASKED);
        assert_eq!(session.wait_ms(4, 0, ASKED), ASKED, "new partitions");
        let changes = [(0, 3), (0, 0), (0, 0), (1, 0), (0, 0), (1, 1)];
        let waits = changes.map(|(added, left_out)| session.wait_ms(added, left_out, ASKED));
        assert_eq!(waits, [10, 15, 22, 10, 15, 10]);
        assert_eq!(session.wait_ms(2, 0, ASKED), ASKED, "all are back");
        assert_eq!(session.wait_ms(0, 1, ASKED), 10);
    }

    #[test]
    fn a_partition_that_does_not_come_back_costs_ten_requests_once() {
        let mut session = LeftOut::default();
        let mut brief = usize::from(session.wait_ms(0, 1, ASKED) < ASKED);
        for _ in 0..100 {
            brief += usize::from(session.wait_ms(0, 0, ASKED) < ASKED);
        }
        assert_eq!(brief, 10);
        assert_eq!(session.wait_ms(1, 0, ASKED), ASKED, "another is added");
        assert_eq!(session.wait_ms(0, 0, ASKED), ASKED);
    }

    #[test]
    fn no_request_waits_longer_than_it_asks_for() {
        for asked in [-1, 0, 5] {
            let mut session = LeftOut::default();
            let waits =
                [(0, 1), (0, 0), (0, 1)].map(|(added, out)| session.wait_ms(added, out, asked));
            assert_eq!(waits, [asked; 3]);
        }
    }
}
