//! Why the coordinator rejects a request.

/// One refusal, in the words of Kafka's protocol; the wire code of each has the same name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// The group's log is still being read. The caller retries.
    #[error("the coordinator is loading the group's log; retry")]
    CoordinatorLoading,
    /// The group's log is not there, is overloaded or failed. The caller looks the coordinator up
    /// again and retries.
    #[error("the coordinator is not available; look it up again and retry")]
    CoordinatorNotAvailable,
    /// Another broker coordinates the group. The caller looks the coordinator up again and retries
    /// there.
    #[error("this broker does not coordinate the group; look the coordinator up again and retry")]
    NotCoordinator,
    /// The group id is empty where a member needs one, or longer than
    /// [`ID_BYTES_MAX`](crate::config::ID_BYTES_MAX).
    #[error("the group id is empty or too long")]
    InvalidGroupId,
    /// No such group.
    #[error("no group has this id")]
    GroupIdNotFound,
    /// The group has members, so it cannot be deleted.
    #[error("the group has members; stop them first")]
    NonEmptyGroup,
    /// The member is not in the group (any more). It joins again without an id.
    #[error("the group has no member with this id; join again")]
    UnknownMemberId,
    /// The member speaks of another generation. It joins again.
    #[error("this is not the group's current generation; join again")]
    IllegalGeneration,
    /// The group is rebalancing. The member joins again.
    #[error("the group is rebalancing; join again")]
    RebalanceInProgress,
    /// The member shares no protocol with the group.
    #[error("the member's protocols do not fit the group's")]
    InconsistentGroupProtocol,
    /// The session timeout is outside what the broker allows.
    #[error("the session timeout is outside the broker's bounds")]
    InvalidSessionTimeout,
    /// Another member has taken this static member's place (KIP-345). It stops.
    #[error("another member uses this group.instance.id")]
    FencedInstanceId,
    /// The member must join again with the id that this carries (KIP-394).
    #[error("join again with the member id {0}")]
    MemberIdRequired(String),
    /// The group has as many members as the broker allows.
    #[error("the group has as many members as the broker allows")]
    GroupMaxSizeReached,
    /// The broker holds as many groups as it can.
    #[error("the broker holds as many groups as it can; delete unused ones")]
    TooManyGroups,
    /// All groups together have as much memory as the broker allows them
    /// ([`GroupConfig::memory_bytes`](crate::GroupConfig::memory_bytes)).
    #[error(
        "the broker's consumer groups have all of group.memory.max.bytes; delete unused groups, \
         subscribe to fewer topics, or raise it"
    )]
    MemoryFull,
    /// The member's epoch is not the one that the coordinator knows (KIP-848). It gives up all its
    /// partitions and joins again.
    #[error("the member has another epoch; give up all partitions and join again")]
    FencedMemberEpoch,
    /// A commit or fetch of offsets names another epoch than the member's (KIP-848). The member
    /// retries with the epoch of its next heartbeat.
    #[error("the member has another epoch; retry after the next heartbeat")]
    StaleMemberEpoch,
    /// Another member has this instance id and has not left (KIP-848).
    #[error("another member uses this group.instance.id and has not left")]
    UnreleasedInstanceId,
    /// The broker has no assignor with this name (KIP-848).
    #[error("unsupported assignor; the broker supports: {0}")]
    UnsupportedAssignor(String),
    /// A pattern that the member subscribes to cannot be compiled (KIP-848).
    #[error("invalid regular expression: {0}")]
    InvalidRegularExpression(String),
    /// The request contradicts itself.
    #[error("{0}")]
    InvalidRequest(&'static str),
    /// The producer's transaction ended before its offsets were written. The producer aborts.
    #[error("the transaction ended before its offsets were written")]
    InvalidTransaction,
    /// The member's metadata or the group's assignment is larger than one record may be.
    #[error("the group's metadata is larger than the coordinator can store")]
    MetadataTooLarge,
}
