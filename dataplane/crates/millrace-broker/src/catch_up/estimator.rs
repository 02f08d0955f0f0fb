//! How far a group is behind on one partition, how fast that changes, and how long it will take.
//! Pure: time and positions come in, estimates come out.

use std::time::Duration;

use millrace_model::Offset;
use serde::Serialize;

use crate::catch_up::rate::Rate;

/// The window of what is shown as "now".
const SHORT: Duration = Duration::from_secs(10);
/// The window of what the remaining time is told from. A commit counts for all of the time since the
/// one before it, so the window need not smooth what comes in lumps.
const LONG: Duration = Duration::from_secs(30);
/// The window of how fast the backlog has been shrinking for a while: a bound of the estimate.
const SLOW: Duration = Duration::from_secs(120);

/// A position that has not moved for this long is not being read: six of the usual commit intervals.
const STILL_AFTER: Duration = Duration::from_secs(30);
/// The most that a first commit after a standstill weighs: what follows says more about the rate.
const RESUME_WEIGHT: Duration = Duration::from_secs(5);
/// The longest interval between commits that is taken for a habit. Where a group has stood still for longer,
/// the time says nothing about when its next commit is due.
const COMMIT_INTERVAL_MAX: Duration = Duration::from_secs(120);
/// A backlog that has not shrunk for this long is not being caught up with.
const FALLING_AFTER: Duration = Duration::from_secs(60);

/// Behind by no more than this counts as at the end: consumers at the end commit now and then, and
/// fetch this much at once.
const TAIL_BYTES: u64 = 1 << 20;
/// And behind by no more than what is produced in so many seconds, for the same reason.
const TAIL_SECONDS: f64 = 10.0;

/// An estimate is never given as more exact than this share of itself.
const BAND_MIN: f64 = 0.1;
/// What is added to that at first; it is gone after [`LONG`].
const BAND_UNTRIED: f64 = 0.4;

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
    /// Which of them is assigned the partition.
    pub(crate) member: Option<usize>,
}

/// Bounds of the remaining time, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Band {
    pub(crate) low: f64,
    /// None where the backlog has not shrunk in one of the windows: the end may never be reached.
    pub(crate) high: Option<f64>,
}

impl Band {
    /// Wide enough for an estimate that was made otherwise.
    pub(crate) fn around(self, eta: f64) -> Self {
        Self {
            low: self.low.min(eta * (1.0 - BAND_MIN)),
            high: self.high.map(|high| high.max(eta * (1.0 + BAND_MIN))),
        }
    }

    /// The bounds of who arrives last of two.
    pub(crate) fn slower(self, other: Self) -> Self {
        Self {
            low: self.low.max(other.low),
            high: self.high.zip(other.high).map(|(a, b)| a.max(b)),
        }
    }
}

/// What has moved, over each of the windows.
#[derive(Debug, Clone, Copy)]
struct Rates {
    short: Rate,
    long: Rate,
    slow: Rate,
}

impl Rates {
    fn new() -> Self {
        Self {
            short: Rate::over(SHORT),
            long: Rate::over(LONG),
            slow: Rate::over(SLOW),
        }
    }

    fn add(&mut self, bytes: u64, within: Duration) {
        for rate in [&mut self.short, &mut self.long, &mut self.slow] {
            rate.add(bytes, within);
        }
    }
}

/// A group on a partition, over time. All rates are bytes per second.
#[derive(Debug, Clone)]
pub(crate) struct Track {
    seen: Sighting,
    read: Rates,
    produced: Rates,
    backlog_bytes: u64,
    /// When the position moved last, or, if that was later, when the reading began.
    moved_at: Duration,
    /// Until when `read` knows what was read: the last move, or when there was last nothing to read.
    read_until: Duration,
    /// The time that the last move took, from `read_until` on: how often the group commits.
    commit_interval: Option<Duration>,
    /// When this reading began.
    reading_since: Duration,
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
            read: Rates::new(),
            produced: Rates::new(),
            backlog_bytes: bytes(seen.position, seen.high_watermark),
            moved_at: seen.at,
            read_until: seen.at,
            commit_interval: None,
            reading_since: seen.at,
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
        let moved = |from: Offset, to: Offset| if from < to { bytes(from, to) } else { 0 };
        let produced = moved(before.high_watermark, seen.high_watermark);
        self.produced.add(produced, within);
        if has_moved {
            self.add_read(moved(before.position, seen.position));
        } else if before.position == before.high_watermark {
            // There was nothing to read. That is part of the shown rate, and tells nothing of how fast
            // a backlog would be read.
            let idle = seen.at.saturating_sub(self.read_until);
            self.read.short.add(0, idle);
            self.read_until = seen.at;
        }
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
        self.read = Rates::new();
        self.moved_at = at;
        self.read_until = at;
        self.commit_interval = None;
        self.reading_since = at;
        self.falling_since = None;
        self.initial_bytes = None;
    }

    /// The position has moved by so many bytes. They have been read in all of the time since it moved
    /// before, however rarely the group commits.
    fn add_read(&mut self, read: u64) {
        let within = self.seen.at.saturating_sub(self.read_until);
        if within >= self.still_after() {
            let usual = self.commit_interval.unwrap_or(RESUME_WEIGHT);
            let weight = usual.min(RESUME_WEIGHT).min(within);
            let share = weight.as_secs_f64() / within.as_secs_f64();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of what is a u64, and not negative"
            )]
            let read = (as_float(read) * share) as u64;
            self.read = Rates::new();
            self.read.add(read, weight);
        } else {
            self.read.add(read, within);
        }
        self.commit_interval = Some(within.min(COMMIT_INTERVAL_MAX));
        self.read_until = self.seen.at;
    }

    /// From when on a position that does not move is no longer being read.
    fn still_after(&self) -> Duration {
        STILL_AFTER.max(self.commit_interval.unwrap_or_default() * 2)
    }

    /// A rate of reading now. It holds between two commits. Once the next one is overdue, nothing
    /// seems to be read.
    fn read_now(&self, rate: Rate) -> f64 {
        let unknown = self.seen.at.saturating_sub(self.read_until);
        if unknown >= self.still_after() {
            return 0.0;
        }
        let mut rate = rate;
        if unknown > self.commit_interval.unwrap_or_default() * 2 {
            rate.add(0, unknown);
        }
        rate.per_second()
    }

    fn update_mode(&mut self) {
        let shrinks = self.drain(|rates| rates.long) > 0.0 || self.backlog_records() == 0;
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
        let close = self.produced.slow.per_second() * TAIL_SECONDS;
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
        self.read_now(self.read.short)
    }

    /// How fast the partition grows.
    pub(crate) fn produce_rate(&self) -> f64 {
        self.produced.short.per_second()
    }

    /// How fast the backlog shrinks now, below 0 where it grows: the rate of reading less that of producing.
    pub(crate) fn drain_rate(&self) -> f64 {
        self.drain(|rates| rates.short)
    }

    /// Which member of the group reads it.
    pub(crate) fn member(&self) -> Option<usize> {
        self.seen.member
    }

    fn drain(&self, window: impl Fn(&Rates) -> Rate) -> f64 {
        self.read_now(window(&self.read)) - window(&self.produced).per_second()
    }

    /// Seconds until the group is at the end; none where it will not be.
    pub(crate) fn eta_seconds(&self) -> Option<f64> {
        match self.mode {
            Mode::Tail => Some(0.0),
            Mode::Idle | Mode::FallingBehind => None,
            Mode::CatchUp => {
                let drain = self.drain(|rates| rates.long);
                let eta = as_float(self.backlog_bytes) / drain;
                (drain > 0.0 && eta <= ETA_SECONDS_MAX).then_some(eta)
            }
        }
    }

    /// The remaining time if the backlog shrinks as fast and as slowly as in any of the windows. None
    /// where there is no estimate.
    pub(crate) fn eta_band(&self) -> Option<Band> {
        let eta = self.eta_seconds()?;
        if self.mode == Mode::Tail {
            let high = Some(0.0);
            return Some(Band { low: 0.0, high });
        }
        let tried = self
            .seen
            .at
            .saturating_sub(self.reading_since)
            .as_secs_f64();
        let untried = (1.0 - tried / LONG.as_secs_f64()).max(0.0);
        let margin = BAND_MIN + BAND_UNTRIED * untried;
        let drains = [
            self.drain(|rates| rates.short),
            self.drain(|rates| rates.long),
            self.drain(|rates| rates.slow),
        ];
        let backlog = as_float(self.backlog_bytes);
        let fastest = drains.into_iter().fold(f64::MIN, f64::max);
        let slowest = drains.into_iter().fold(f64::MAX, f64::min);
        let high = (slowest > 0.0).then(|| (backlog / slowest).max(eta * (1.0 + margin)));
        Some(Band {
            low: (backlog / fastest).min(eta * (1.0 - margin)),
            high: high.filter(|high| *high <= ETA_SECONDS_MAX),
        })
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
