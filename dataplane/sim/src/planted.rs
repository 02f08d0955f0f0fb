//! Faults that are planted into the simulated parts, to prove that the checks would find such a fault in the brokers.

/// A planted fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// The log's fence lets every epoch acknowledge.
    SkipFence,
    /// Whoever takes over a log acts under the epoch that its former owner had.
    ReuseEpoch,
    /// The disk answers a write before it is durable.
    AcknowledgeBeforeDurable,
    /// The feed leaves out some changes of topics.
    DropFeedEntry,
    /// Streams can be opened although another broker owns them.
    OpenWithoutWaiting,
    /// The streams of a fenced broker have no owner as soon as somebody takes over its log.
    ReleaseBeforeUpload,
    /// Brokers judge each other whose own lease has run out.
    JudgeWithStaleLease,
    /// A broker that joins may judge at once, also right after the database was away.
    JudgeAfterLateJoin,
    /// Planning a move hands the partition over.
    HandOverBeforeSealed,
    /// Whoever takes over a log raises its fence some time after it has read the log.
    RaiseFenceLate,
    /// The database says that an upload is committed, and forgets it.
    ForgetUpload,
}

impl Planted {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::SkipFence,
        Self::ReuseEpoch,
        Self::AcknowledgeBeforeDurable,
        Self::DropFeedEntry,
        Self::OpenWithoutWaiting,
        Self::ReleaseBeforeUpload,
        Self::JudgeWithStaleLease,
        Self::JudgeAfterLateJoin,
        Self::HandOverBeforeSealed,
        Self::RaiseFenceLate,
        Self::ForgetUpload,
    ];
}
