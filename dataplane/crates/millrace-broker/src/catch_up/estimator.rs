//! How far a group is behind on one partition, how fast that changes, and how long it will take.
//! Pure: time and positions come in, estimates come out.

use std::time::Duration;

use millrace_model::Offset;
use serde::Serialize;

use crate::catch_up::rate::Rate;

/// The window of what is shown as "now".
const SHORT: Duration = Duration::from_secs(10);
/// The window of what the remaining time is told from: consumers commit every 5 seconds by default,
/// so what they read comes in lumps.
const LONG: Duration = Duration::from_secs(60);

/// A position that has not moved for this long is not being read: six of the usual commit intervals.
const STILL_AFTER: Duration = Duration::from_secs(30);
/// A backlog that has not shrunk for this long is not being caught up with.
const FALLING_AFTER: Duration = Duration::from_secs(60);

/// Behind by no more than this counts as at the end: consumers at the end commit now and then, and
/// fetch this much at once.
const TAIL_BYTES: u64 = 1 << 20;
/// And behind by no more than what is produced in so many seconds, for the same reason.
const TAIL_SECONDS: f64 = 10.0;

/// A time that is longer is no estimate: ten years, in seconds.
const ETA_SECONDS_MAX: f64 = 10.0 * 366.0 * 86_400.0;

/// How a group stands to a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// Nobody reads.
    Idle,
    /// At the end, or close.
    Tail,
    /// Behind.
    CatchUp,
    /// Behind, and not getting nearer.
    FallingBehind,
}

/// What is seen of a group on a partition at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sighting {
    /// When, on the clock that never goes back.
    pub(crate) at: Duration,
    /// The next record that the group wants.
    pub(crate) position: Offset,
    pub(crate) high_watermark: Offset,
    /// Whether the group has members.
    pub(crate) has_members: bool,
}

/// A group on a partition, over time. All rates are bytes per second.
#[derive(Debug, Clone)]
pub(crate) struct Track {
    seen: Sighting,
    read_short: Rate,
    read_long: Rate,
    produced_short: Rate,
    produced_long: Rate,
    backlog_bytes: u64,
    /// When the position moved last, or, if that was later, when the reading began.
    moved_at: Duration,
    /// Since when the backlog has not shrunk.
    falling_since: Option<Duration>,
    /// The backlog when the catching up began, or the most that it has been since. Stays when the
    /// end is reached, until [`Track::forget_progress`].
    initial_bytes: Option<u64>,
    mode: Mode,
}

impl Track {
    /// The first sighting; `bytes` tells how many there are between two offsets.
    pub(crate) fn new(seen: Sighting, bytes: impl Fn(Offset, Offset) -> u64) -> Self {
        let mut track = Self {
            seen,
            read_short: Rate::over(SHORT),
            read_long: Rate::over(LONG),
            produced_short: Rate::over(SHORT),
            produced_long: Rate::over(LONG),
            backlog_bytes: bytes(seen.position, seen.high_watermark),
            moved_at: seen.at,
            falling_since: None,
            initial_bytes: None,
            mode: Mode::Idle,
        };
        track.update_mode();
        track
    }

    /// The next sighting.
    pub(crate) fn see(&mut self, seen: Sighting, bytes: impl Fn(Offset, Offset) -> u64) {
        let before = std::mem::replace(&mut self.seen, seen);
        let within = seen.at.saturating_sub(before.at);
        if within.is_zero() {
            return;
        }
        if seen.has_members && self.mode == Mode::Idle {
            // They joined since the sighting before.
            self.begin(before.at);
        }
        let has_moved = seen.position != before.position;
        if seen.position < before.position {
            self.begin(before.at);
        }
        // Who commits rarely reads all the time: what a commit after a long while tells has been
        // read in all of it, and the nothing that was counted meanwhile is replaced.
        let still = seen.at.saturating_sub(self.moved_at);
        let read_within = if has_moved && still >= STILL_AFTER {
            self.forget_read();
            still
        } else {
            within
        };
        let moved = |from: Offset, to: Offset| if from < to { bytes(from, to) } else { 0 };
        let read = moved(before.position, seen.position);
        let produced = moved(before.high_watermark, seen.high_watermark);
        self.read_short.add(read, read_within);
        self.read_long.add(read, read_within);
        self.produced_short.add(produced, within);
        self.produced_long.add(produced, within);
        if has_moved {
            self.moved_at = seen.at;
        }
        if (seen.position, seen.high_watermark) != (before.position, before.high_watermark) {
            self.backlog_bytes = bytes(seen.position, seen.high_watermark);
        }
        self.update_mode();
    }

    /// Another reading begins at `at`; the one before says nothing about it.
    fn begin(&mut self, at: Duration) {
        self.forget_read();
        self.moved_at = at;
        self.falling_since = None;
        self.initial_bytes = None;
    }

    fn forget_read(&mut self) {
        self.read_short = Rate::over(SHORT);
        self.read_long = Rate::over(LONG);
    }

    fn update_mode(&mut self) {
        let shrinks = self.drain_rate() > 0.0 || self.backlog_records() == 0;
        // Nothing is known of a rate at the first sighting.
        self.falling_since = match (shrinks, self.falling_since) {
            (true, _) => None,
            (false, since) => since.or(Some(self.seen.at)),
        };
        self.mode = self.mode_now();
        if self.is_behind() {
            self.initial_bytes = Some(self.initial_bytes.unwrap_or(0).max(self.backlog_bytes));
        }
    }

    fn mode_now(&self) -> Mode {
        let Sighting {
            at, has_members, ..
        } = self.seen;
        let still = at.saturating_sub(self.moved_at);
        // A group without members that commits is read by somebody all the same.
        let is_read = still < STILL_AFTER && self.read_rate() > 0.0;
        if !has_members && !is_read {
            return Mode::Idle;
        }
        let close = self.produced_long.per_second() * TAIL_SECONDS;
        if (self.backlog_bytes <= TAIL_BYTES || as_float(self.backlog_bytes) <= close)
            && (self.backlog_records() == 0 || still < FALLING_AFTER)
        {
            return Mode::Tail;
        }
        let falling = |since: Duration| at.saturating_sub(since) >= FALLING_AFTER;
        if self.falling_since.is_some_and(falling) {
            Mode::FallingBehind
        } else {
            Mode::CatchUp
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether it is read and not at the end.
    pub(crate) fn is_behind(&self) -> bool {
        matches!(self.mode, Mode::CatchUp | Mode::FallingBehind)
    }

    pub(crate) fn position(&self) -> Offset {
        self.seen.position
    }

    pub(crate) fn high_watermark(&self) -> Offset {
        self.seen.high_watermark
    }

    /// Records between the position and the end.
    pub(crate) fn backlog_records(&self) -> u64 {
        self.seen.high_watermark.saturating_sub(self.seen.position)
    }

    /// Their bytes.
    pub(crate) fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes
    }

    /// How fast the group reads.
    pub(crate) fn read_rate(&self) -> f64 {
        self.read_short.per_second()
    }

    /// How fast the partition grows.
    pub(crate) fn produce_rate(&self) -> f64 {
        self.produced_short.per_second()
    }

    /// How fast the backlog shrinks; below 0 where it grows.
    pub(crate) fn drain_rate(&self) -> f64 {
        self.read_long.per_second() - self.produced_long.per_second()
    }

    /// Seconds until the group is at the end; none where it will not be.
    pub(crate) fn eta_seconds(&self) -> Option<f64> {
        match self.mode {
            Mode::Tail => Some(0.0),
            Mode::Idle | Mode::FallingBehind => None,
            Mode::CatchUp => {
                let drain = self.drain_rate();
                let eta = as_float(self.backlog_bytes) / drain;
                (drain > 0.0 && eta <= ETA_SECONDS_MAX).then_some(eta)
            }
        }
    }

    /// What is done of the catching up, and what it began with, in bytes; none where there was
    /// nothing to catch up with. Who is at the end has done all: a group does not go back because
    /// one of its partitions is through before the others.
    pub(crate) fn done_of_initial(&self) -> Option<(u64, u64)> {
        let initial = self.initial_bytes?;
        let left = match self.mode {
            Mode::Tail => 0,
            Mode::Idle | Mode::CatchUp | Mode::FallingBehind => self.backlog_bytes,
        };
        Some((initial.saturating_sub(left), initial))
    }

    /// The group's catching up is over: the next one starts from zero.
    pub(crate) fn forget_progress(&mut self) {
        self.initial_bytes = None;
    }
}

/// Bytes as a rate's kind of number.
pub(crate) fn as_float(bytes: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "an estimate is no exact number")]
    let float = bytes as f64;
    float
}

#[cfg(test)]
mod tests;
