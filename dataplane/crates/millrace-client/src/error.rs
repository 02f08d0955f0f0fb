//! What can go wrong with a request, and Kafka's error codes.

use std::{fmt, io, sync::Arc, time::Duration};

use millrace_wire::{client::MalformedResponse, error_code};

use crate::transport::BrokerAddress;

/// One of Kafka's error codes, as a broker sent it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(i16);

macro_rules! codes {
    ($($name:ident = $variant:ident;)*) => {
        impl ErrorCode {
            $(
                #[doc = concat!("Kafka's `", stringify!($name), "`.")]
                pub const $name: Self = Self(error_code::ErrorCode::$variant.code());
            )*
        }
    };
}

codes! {
    CLUSTER_AUTHORIZATION_FAILED = ClusterAuthorizationFailed;
    COORDINATOR_LOAD_IN_PROGRESS = CoordinatorLoadInProgress;
    COORDINATOR_NOT_AVAILABLE = CoordinatorNotAvailable;
    CORRUPT_MESSAGE = CorruptMessage;
    DUPLICATE_SEQUENCE_NUMBER = DuplicateSequenceNumber;
    FENCED_INSTANCE_ID = FencedInstanceId;
    FENCED_LEADER_EPOCH = FencedLeaderEpoch;
    FENCED_MEMBER_EPOCH = FencedMemberEpoch;
    FETCH_SESSION_ID_NOT_FOUND = FetchSessionIdNotFound;
    FETCH_SESSION_TOPIC_ID_ERROR = FetchSessionTopicIdError;
    GROUP_AUTHORIZATION_FAILED = GroupAuthorizationFailed;
    GROUP_ID_NOT_FOUND = GroupIdNotFound;
    ILLEGAL_GENERATION = IllegalGeneration;
    INCONSISTENT_TOPIC_ID = InconsistentTopicId;
    INVALID_CONFIG = InvalidConfig;
    INVALID_FETCH_SESSION_EPOCH = InvalidFetchSessionEpoch;
    INVALID_PARTITIONS = InvalidPartitions;
    INVALID_PRODUCER_EPOCH = InvalidProducerEpoch;
    INVALID_RECORD = InvalidRecord;
    INVALID_TOPIC = InvalidTopicException;
    KAFKA_STORAGE_ERROR = KafkaStorageError;
    LEADER_NOT_AVAILABLE = LeaderNotAvailable;
    MEMBER_ID_REQUIRED = MemberIdRequired;
    MESSAGE_TOO_LARGE = MessageTooLarge;
    NETWORK_EXCEPTION = NetworkException;
    NON_EMPTY_GROUP = NonEmptyGroup;
    NOT_CONTROLLER = NotController;
    NOT_COORDINATOR = NotCoordinator;
    NOT_ENOUGH_REPLICAS = NotEnoughReplicas;
    NOT_LEADER_OR_FOLLOWER = NotLeaderOrFollower;
    OFFSET_NOT_AVAILABLE = OffsetNotAvailable;
    OFFSET_OUT_OF_RANGE = OffsetOutOfRange;
    OUT_OF_ORDER_SEQUENCE_NUMBER = OutOfOrderSequenceNumber;
    POLICY_VIOLATION = PolicyViolation;
    REBALANCE_IN_PROGRESS = RebalanceInProgress;
    REBOOTSTRAP_REQUIRED = RebootstrapRequired;
    RECORD_LIST_TOO_LARGE = RecordListTooLarge;
    REPLICA_NOT_AVAILABLE = ReplicaNotAvailable;
    REQUEST_TIMED_OUT = RequestTimedOut;
    SASL_AUTHENTICATION_FAILED = SaslAuthenticationFailed;
    STALE_MEMBER_EPOCH = StaleMemberEpoch;
    THROTTLING_QUOTA_EXCEEDED = ThrottlingQuotaExceeded;
    TOPIC_ALREADY_EXISTS = TopicAlreadyExists;
    TOPIC_AUTHORIZATION_FAILED = TopicAuthorizationFailed;
    UNKNOWN_LEADER_EPOCH = UnknownLeaderEpoch;
    UNKNOWN_MEMBER_ID = UnknownMemberId;
    UNKNOWN_PRODUCER_ID = UnknownProducerId;
    UNKNOWN_SERVER_ERROR = UnknownServerError;
    UNKNOWN_TOPIC_ID = UnknownTopicId;
    UNKNOWN_TOPIC_OR_PARTITION = UnknownTopicOrPartition;
    UNRELEASED_INSTANCE_ID = UnreleasedInstanceId;
    UNSTABLE_OFFSET_COMMIT = UnstableOffsetCommit;
    UNSUPPORTED_ASSIGNOR = UnsupportedAssignor;
    UNSUPPORTED_SASL_MECHANISM = UnsupportedSaslMechanism;
    UNSUPPORTED_VERSION = UnsupportedVersion;
}

impl ErrorCode {
    /// The error with this number; nothing for 0, which says that there is none.
    #[must_use]
    pub const fn from_code(code: i16) -> Option<Self> {
        if code == error_code::NONE {
            None
        } else {
            Some(Self(code))
        }
    }

    /// Kafka's number.
    #[must_use]
    pub const fn code(self) -> i16 {
        self.0
    }

    /// Whether Kafka's protocol says that the same request may succeed later.
    #[must_use]
    pub fn is_retriable(self) -> bool {
        error_code::ErrorCode::try_from_code(self.0).is_some_and(|code| code.is_retriable())
    }

    /// Whether the client asked a broker that the cluster's metadata no longer supports: a new
    /// leader, a deleted or re-created topic.
    #[must_use]
    pub fn is_stale_metadata(self) -> bool {
        [
            Self::NOT_LEADER_OR_FOLLOWER,
            Self::LEADER_NOT_AVAILABLE,
            Self::REPLICA_NOT_AVAILABLE,
            Self::UNKNOWN_TOPIC_OR_PARTITION,
            Self::UNKNOWN_TOPIC_ID,
            Self::INCONSISTENT_TOPIC_ID,
            Self::FENCED_LEADER_EPOCH,
            Self::UNKNOWN_LEADER_EPOCH,
            Self::KAFKA_STORAGE_ERROR,
            Self::NOT_CONTROLLER,
        ]
        .contains(&self)
    }
}

impl fmt::Display for ErrorCode {
    /// Kafka's name, as in `NOT_LEADER_OR_FOLLOWER`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(known) = error_code::ErrorCode::try_from_code(self.0) else {
            return f.write_str("NONE");
        };
        if let error_code::ErrorCode::Unknown(code) = known {
            return write!(f, "error code {code}");
        }
        for (at, letter) in known.to_string().char_indices() {
            if letter.is_ascii_uppercase() && at > 0 {
                f.write_str("_")?;
            }
            write!(f, "{}", letter.to_ascii_uppercase())?;
        }
        Ok(())
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A broker refused a request, or the part of it for one topic, partition or group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokerError {
    /// Kafka's error code.
    pub code: ErrorCode,
    /// What the broker says about it.
    pub message: Option<String>,
}

impl BrokerError {
    pub(crate) fn check(code: i16, message: Option<&str>) -> Result<(), Self> {
        match ErrorCode::from_code(code) {
            None => Ok(()),
            Some(code) => Err(Self {
                code,
                message: message
                    .filter(|text| !text.is_empty())
                    .map(ToOwned::to_owned),
            }),
        }
    }
}

impl From<ErrorCode> for BrokerError {
    fn from(code: ErrorCode) -> Self {
        Self {
            code,
            message: None,
        }
    }
}

impl fmt::Display for BrokerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.message {
            None => write!(f, "the broker answered {}", self.code),
            Some(message) => write!(f, "the broker answered {}: {message}", self.code),
        }
    }
}

impl std::error::Error for BrokerError {}

/// Why a request has no answer, or not the one that was asked for.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// No connection could be opened.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The broker.
        address: BrokerAddress,
        /// What the transport says.
        source: Arc<io::Error>,
    },
    /// The broker refused the credentials, or does not offer the mechanism. Retrying cannot help.
    #[error("authentication with {address} failed: {reason}")]
    Authentication {
        /// The broker.
        address: BrokerAddress,
        /// What broker or mechanism say.
        reason: String,
    },
    /// The connection ended before the answer came. The request may have been carried out.
    #[error("the connection to {address} ended: {reason}")]
    Disconnected {
        /// The broker.
        address: BrokerAddress,
        /// Why.
        reason: Arc<str>,
    },
    /// No answer came in time. The request may have been carried out.
    #[error("{what} took longer than {after:?}")]
    TimedOut {
        /// What was waited for.
        what: String,
        /// For how long.
        after: Duration,
    },
    /// The broker does not offer the API in a version that this client speaks.
    #[error("{address} does not support {api} in a version that this client speaks")]
    Unsupported {
        /// The broker.
        address: BrokerAddress,
        /// The API.
        api: String,
    },
    /// Request or answer do not follow the protocol.
    #[error("{address}: {reason}")]
    Protocol {
        /// The broker.
        address: BrokerAddress,
        /// What is wrong.
        reason: String,
    },
    /// The broker answered with an error.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// The client has been closed.
    #[error("the client is closed")]
    Closed,
}

impl RequestError {
    pub(crate) fn malformed(address: &BrokerAddress, reason: &MalformedResponse) -> Self {
        Self::Protocol {
            address: address.clone(),
            reason: reason.to_string(),
        }
    }

    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Disconnected { .. } | Self::TimedOut { .. } => true,
            Self::Broker(error) => error.code.is_retriable(),
            Self::Authentication { .. }
            | Self::Unsupported { .. }
            | Self::Protocol { .. }
            | Self::Closed => false,
        }
    }

    /// Kafka's code, where a broker answered.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Broker(error) => Some(error.code),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_kafkas_names() {
        let name = |code| ErrorCode::from_code(code).map(|code| code.to_string());
        assert_eq!(name(0), None);
        assert_eq!(name(6).as_deref(), Some("NOT_LEADER_OR_FOLLOWER"));
        assert_eq!(name(-1).as_deref(), Some("UNKNOWN_SERVER_ERROR"));
        assert_eq!(name(9_999).as_deref(), Some("error code 9999"));
        assert!(ErrorCode::REQUEST_TIMED_OUT.is_retriable());
        assert!(!ErrorCode::MESSAGE_TOO_LARGE.is_retriable());
    }
}
