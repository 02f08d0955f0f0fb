//! The tiers of traffic, from most to least urgent.

/// How urgent bytes are, the most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// What producers send and what makes room in the write-ahead log. Never waits.
    WalUpload,
    /// Reads at the end of a stream, from memory.
    TailRead,
    /// Reads of old data that somebody waits for. Has a guaranteed share, because producers alone may
    /// take all bandwidth indefinitely, and readers would make no progress.
    CatchUpMiss,
    /// Reads of old data that somebody will want.
    Prefetch,
    /// Rewriting objects. Has a guaranteed share, because without it every other read gets dearer.
    Compaction,
}

impl Tier {
    /// All tiers, the most urgent first.
    pub const ALL: [Self; 5] = [
        Self::WalUpload,
        Self::TailRead,
        Self::CatchUpMiss,
        Self::Prefetch,
        Self::Compaction,
    ];

    /// Those that get a little however urgent the others are.
    pub(crate) const WITH_SHARE: [Self; 2] = [Self::CatchUpMiss, Self::Compaction];

    /// The name in metrics and in answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WalUpload => "wal_upload",
            Self::TailRead => "tail_read",
            Self::CatchUpMiss => "catch_up_miss",
            Self::Prefetch => "prefetch",
            Self::Compaction => "compaction",
        }
    }

    /// Whether it is charged instead of waiting.
    #[must_use]
    pub const fn never_waits(self) -> bool {
        matches!(self, Self::WalUpload)
    }

    /// Whether it never takes all of the bandwidth: its requests are large and many, and what is more
    /// urgent would wait in the network's queues behind those that were granted before.
    pub(crate) const fn leaves_headroom(self) -> bool {
        matches!(self, Self::CatchUpMiss | Self::Prefetch | Self::Compaction)
    }

    /// Whether it gets a little however urgent the others are.
    #[cfg(test)]
    pub(crate) fn has_share(self) -> bool {
        Self::WITH_SHARE.contains(&self)
    }
}
