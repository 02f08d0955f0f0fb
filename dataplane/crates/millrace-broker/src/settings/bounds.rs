//! The bounds of each dynamic setting, with their reasons.

use crate::{
    config::{BYTES_MAX, CACHE_BYTES_MIN, PREFETCH_BYTES_MAX, UPLOAD_THRESHOLD_BYTES_MIN},
    settings::dynamic::{Dynamic, Values},
};

/// The lowest bandwidth that can be set: the network is shared out in slices of up to a MiB, and one
/// should not take longer than a second.
const BANDWIDTH_MIN: u64 = 1 << 20;

/// What does not change while the broker runs, or not through settings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// What the whole broker may have, bytes.
    pub(crate) bound_bytes: u64,
    /// What of it all parts but the caches have, bytes.
    pub(crate) beside_caches: u64,
    /// `message.max.bytes`
    pub(crate) message_max_bytes: u64,
}

/// What a setting may be. Both ends belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) min: u64,
    pub(crate) max: u64,
    /// Whether 0 is legal too, for "no bound".
    pub(crate) or_zero: bool,
    pub(crate) reason_min: String,
    pub(crate) reason_max: String,
}

impl Bounds {
    /// What is wrong with a value, which bound it breaks, why, and what to write.
    ///
    /// # Errors
    /// The value is out of bounds.
    pub(crate) fn check(&self, setting: Dynamic, value: u64) -> Result<(), String> {
        let Self {
            min,
            max,
            or_zero,
            reason_min,
            reason_max,
        } = self;
        let name = setting.name();
        if *or_zero && value == 0 {
            return Ok(());
        }
        if value < *min {
            let zero = if *or_zero { ", or 0 for no bound" } else { "" };
            return Err(format!(
                "{name}: {value} is below the least of {min}: {reason_min}; write at least {min}{zero}"
            ));
        }
        if value > *max {
            return Err(format!(
                "{name}: {value} is above the most of {max}: {reason_max}; write at most {max}"
            ));
        }
        Ok(())
    }

    /// How far a value is beyond them; 0 for a legal one.
    pub(crate) fn beyond(&self, value: u64) -> u64 {
        if self.or_zero && value == 0 {
            return 0;
        }
        value.abs_diff(value.clamp(self.min, self.max))
    }

    /// The lowest legal value.
    pub(crate) fn least(&self) -> u64 {
        if self.or_zero { 0 } else { self.min }
    }

    /// Why, in one text.
    pub(crate) fn reason(&self) -> String {
        let Self {
            min,
            or_zero,
            reason_min,
            reason_max,
            ..
        } = self;
        let zero = match or_zero {
            true => format!(" (from {min} on; 0 is no bound)"),
            false => String::new(),
        };
        format!("least{zero}: {reason_min}; most: {reason_max}")
    }
}

/// Which settings are in question: what is asked for, beside what is in force.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    /// All values as they would be.
    pub(crate) values: Values,
    /// What both caches have now; they may always have as much again, whatever the machine has.
    pub(crate) caches_now: u64,
    /// Whether somebody set the upload threshold; else it follows the log cache.
    pub(crate) threshold_is_set: bool,
}

/// What `setting` may be while the others are as they would be.
pub(crate) fn bounds(setting: Dynamic, candidate: &Candidate, limits: &Limits) -> Bounds {
    match setting {
        Dynamic::BlockCache => block_cache(candidate, limits),
        Dynamic::WalCache => wal_cache(candidate, limits),
        Dynamic::PrefetchMax => Bounds {
            min: 0,
            max: PREFETCH_BYTES_MAX,
            or_zero: false,
            reason_min: "0 turns prefetching off".to_owned(),
            reason_max: "a bucket that takes 100 ms is kept busy by it at 10 GB/s, and \
                         s3.block.cache.size bounds all readers together"
                .to_owned(),
        },
        Dynamic::Ingress | Dynamic::Egress => Bounds {
            min: BANDWIDTH_MIN,
            max: bytes(BYTES_MAX),
            or_zero: true,
            reason_min: "the network is shared out in slices of a MiB, and one should not take \
                         longer than a second"
                .to_owned(),
            reason_max: "no network has more".to_owned(),
        },
        Dynamic::UploadThreshold => Bounds {
            min: bytes(UPLOAD_THRESHOLD_BYTES_MIN),
            max: candidate.values.get(Dynamic::WalCache),
            or_zero: false,
            reason_min: "each upload is an object or more, and the bucket's requests cost money \
                         and time whatever they hold"
                .to_owned(),
            reason_max: "s3.wal.cache.size has no more, so it would never be reached".to_owned(),
        },
    }
}

fn block_cache(candidate: &Candidate, limits: &Limits) -> Bounds {
    let other = candidate.values.get(Dynamic::WalCache);
    let min = bytes(CACHE_BYTES_MIN);
    Bounds {
        min,
        max: room(candidate, limits).saturating_sub(other).max(min),
        or_zero: false,
        reason_min: "each partition that catches up holds up to three blocks of 512 KiB, and ten \
                     should be able to at once"
            .to_owned(),
        reason_max: memory_reason(limits, other, Dynamic::WalCache),
    }
}

fn wal_cache(candidate: &Candidate, limits: &Limits) -> Bounds {
    let other = candidate.values.get(Dynamic::BlockCache);
    let threshold = candidate.values.get(Dynamic::UploadThreshold);
    let least = [
        (
            bytes(CACHE_BYTES_MIN),
            "one block is filled while others are uploaded, and each is an object".to_owned(),
        ),
        (
            limits.message_max_bytes.saturating_mul(2),
            "a batch of message.max.bytes must fit while another one is uploaded".to_owned(),
        ),
        (
            if candidate.threshold_is_set {
                threshold
            } else {
                0
            },
            "s3.wal.upload.threshold is as large, and would never be reached".to_owned(),
        ),
    ];
    let (min, reason_min) = least
        .into_iter()
        .max_by_key(|(min, _)| *min)
        .unwrap_or_default();
    Bounds {
        min,
        max: room(candidate, limits).saturating_sub(other).max(min),
        or_zero: false,
        reason_min,
        reason_max: memory_reason(limits, other, Dynamic::BlockCache),
    }
}

/// What both caches may have together, bytes.
fn room(candidate: &Candidate, limits: &Limits) -> u64 {
    let room = limits.bound_bytes.saturating_sub(limits.beside_caches);
    room.max(candidate.caches_now).min(bytes(BYTES_MAX))
}

fn memory_reason(limits: &Limits, other: u64, of: Dynamic) -> String {
    let Limits {
        bound_bytes,
        beside_caches,
        ..
    } = limits;
    format!(
        "the broker may have {bound_bytes} bytes of memory (memory.max.bytes), of which {} has {other}, \
         and requests, groups, producers, partitions and work have {beside_caches}",
        of.name()
    )
}

fn bytes(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const LIMITS: Limits = Limits {
        bound_bytes: 1_120 * MIB,
        beside_caches: 420 * MIB,
        message_max_bytes: MIB,
    };

    fn candidate(block_mib: u64, wal_mib: u64, threshold_mib: u64) -> Candidate {
        Candidate {
            values: Values::new(|setting| match setting {
                Dynamic::BlockCache => block_mib * MIB,
                Dynamic::WalCache => wal_mib * MIB,
                Dynamic::UploadThreshold => threshold_mib * MIB,
                _ => 0,
            }),
            caches_now: 0,
            threshold_is_set: true,
        }
    }

    fn of(setting: Dynamic, candidate: &Candidate) -> (u64, u64) {
        let bounds = bounds(setting, candidate, &LIMITS);
        (bounds.min / MIB, bounds.max / MIB)
    }

    #[test]
    fn the_caches_share_what_the_machine_has() {
        let candidate = candidate(300, 200, 50);
        assert_eq!(of(Dynamic::BlockCache, &candidate), (16, 500));
        assert_eq!(of(Dynamic::WalCache, &candidate), (50, 400));
        let beyond = Candidate {
            caches_now: 900 * MIB,
            ..candidate
        };
        let (_, max) = of(Dynamic::BlockCache, &beyond);
        assert_eq!(max, 700, "what is in force stays legal");
    }

    #[test]
    fn a_cache_is_never_asked_for_what_it_cannot_have() {
        let tight = Limits {
            bound_bytes: MIB,
            ..LIMITS
        };
        for setting in Dynamic::ALL {
            let bounds = bounds(setting, &candidate(16, 16, 4), &tight);
            assert!(bounds.min <= bounds.max, "{setting:?} {bounds:?}");
        }
    }

    #[test]
    fn the_log_cache_holds_what_is_uploaded_at_once_and_two_batches() {
        assert_eq!(of(Dynamic::UploadThreshold, &candidate(64, 200, 1)).1, 200);
        let mut follows = candidate(64, 64, 100);
        assert_eq!(of(Dynamic::WalCache, &follows).0, 100);
        follows.threshold_is_set = false;
        assert_eq!(of(Dynamic::WalCache, &follows).0, 16);
        let large = Limits {
            message_max_bytes: 40 * MIB,
            ..LIMITS
        };
        assert_eq!(bounds(Dynamic::WalCache, &follows, &large).min, 80 * MIB);
    }

    #[test]
    fn a_refusal_names_setting_value_bound_reason_and_remedy() {
        let candidate = candidate(64, 64, 16);
        let block = bounds(Dynamic::BlockCache, &candidate, &LIMITS);
        let text = block
            .check(Dynamic::BlockCache, 4_096)
            .expect_err("too small");
        assert_eq!(
            text,
            "s3.block.cache.size: 4096 is below the least of 16777216: each partition that catches \
             up holds up to three blocks of 512 KiB, and ten should be able to at once; write at \
             least 16777216"
        );
        let text = block
            .check(Dynamic::BlockCache, 1 << 40)
            .expect_err("too large");
        assert!(
            text.contains("above the most of 666894336") && text.contains("s3.wal.cache.size has"),
            "{text}"
        );
        assert_eq!(block.check(Dynamic::BlockCache, block.min), Ok(()));
        assert_eq!(block.check(Dynamic::BlockCache, block.max), Ok(()));
        let ingress = bounds(Dynamic::Ingress, &candidate, &LIMITS);
        assert_eq!(ingress.check(Dynamic::Ingress, 0), Ok(()));
        let text = ingress.check(Dynamic::Ingress, 5).expect_err("too slow");
        assert!(text.ends_with("or 0 for no bound"), "{text}");
        assert_eq!((ingress.least(), block.least()), (0, block.min));
        assert_eq!(
            (block.beyond(block.max), block.beyond(block.max + 7)),
            (0, 7)
        );
        assert_eq!((ingress.beyond(0), block.beyond(0)), (0, block.min));
    }
}
