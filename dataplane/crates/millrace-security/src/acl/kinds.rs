//! Types of resources, patterns and operations. The numbers are Kafka's and travel in its protocol.

/// Declares an enumeration with Kafka's codes.
macro_rules! coded {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $code:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$each])* $variant = $code,)* }

        impl $name {
            /// Every one, by its code.
            pub const ALL_KINDS: &'static [Self] = &[$(Self::$variant,)*];

            /// Kafka's number.
            #[must_use]
            pub const fn code(self) -> i8 {
                self as i8
            }

            /// The one with this number, if a rule may have it.
            #[must_use]
            pub fn from_code(code: i8) -> Option<Self> {
                Self::ALL_KINDS.iter().copied().find(|kind| kind.code() == code)
            }
        }
    };
}

coded! {
    /// What a rule speaks of.
    ResourceType {
        /// A topic.
        Topic = 2,
        /// A consumer group.
        Group = 3,
        /// The cluster itself; its name is always `kafka-cluster`.
        Cluster = 4,
        /// A transactional id.
        TransactionalId = 5,
        /// A delegation token.
        DelegationToken = 6,
        /// A user, where somebody else manages its tokens.
        User = 7,
    }
}

coded! {
    /// How a rule's name is compared with a resource's.
    PatternType {
        /// Equal, or `*` for every name.
        Literal = 3,
        /// The resource's name begins with it.
        Prefixed = 4,
    }
}

coded! {
    /// What somebody wants to do.
    Operation {
        /// Everything.
        All = 2,
        /// Read.
        Read = 3,
        /// Write.
        Write = 4,
        /// Create.
        Create = 5,
        /// Delete.
        Delete = 6,
        /// Change.
        Alter = 7,
        /// Look at.
        Describe = 8,
        /// What brokers do among themselves.
        ClusterAction = 9,
        /// Look at configurations.
        DescribeConfigs = 10,
        /// Change configurations.
        AlterConfigs = 11,
        /// Write with an idempotent producer.
        IdempotentWrite = 12,
        /// Create tokens.
        CreateTokens = 13,
        /// Look at tokens.
        DescribeTokens = 14,
        /// Commit or abort transactions of others.
        TwoPhaseCommit = 15,
    }
}

coded! {
    /// Whether a rule gives or takes.
    Permission {
        /// Takes, and wins.
        Deny = 2,
        /// Gives.
        Allow = 3,
    }
}

/// A set of operations, one bit for each, at the place of its code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Operations(u32);

impl Operations {
    const EVERY: Self = Self(u32::MAX);

    const fn of(operations: &[Operation]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < operations.len() {
            bits |= 1 << operations[at] as u32;
            at += 1;
        }
        Self(bits)
    }

    /// What a rule allows: with read, write, delete or alter comes describe, with altering configurations
    /// comes describing them.
    pub(super) const fn allowed_by(operation: Operation) -> Self {
        match operation {
            Operation::All => Self::EVERY,
            Operation::Read | Operation::Write | Operation::Delete | Operation::Alter => {
                Self::of(&[operation, Operation::Describe])
            }
            Operation::AlterConfigs => Self::of(&[operation, Operation::DescribeConfigs]),
            _ => Self::of(&[operation]),
        }
    }

    /// What a rule denies, which implies nothing else.
    pub(super) const fn denied_by(operation: Operation) -> Self {
        match operation {
            Operation::All => Self::EVERY,
            _ => Self::of(&[operation]),
        }
    }

    pub(super) const fn has(self, operation: Operation) -> bool {
        self.0 & (1 << operation as u32) != 0
    }

    pub(super) const fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl ResourceType {
    /// The operations that make sense on it, in the order of their codes (KIP-430).
    #[must_use]
    pub const fn operations(self) -> &'static [Operation] {
        use Operation::{
            Alter, AlterConfigs, ClusterAction, Create, CreateTokens, Delete, Describe,
            DescribeConfigs, DescribeTokens, IdempotentWrite, Read, TwoPhaseCommit, Write,
        };
        match self {
            Self::Topic => &[
                Read,
                Write,
                Create,
                Delete,
                Alter,
                Describe,
                DescribeConfigs,
                AlterConfigs,
            ],
            Self::Group => &[Read, Delete, Describe, DescribeConfigs, AlterConfigs],
            Self::Cluster => &[
                Create,
                Alter,
                Describe,
                ClusterAction,
                DescribeConfigs,
                AlterConfigs,
                IdempotentWrite,
            ],
            Self::TransactionalId => &[Write, Describe, TwoPhaseCommit],
            Self::DelegationToken => &[Describe],
            Self::User => &[CreateTokens, DescribeTokens],
        }
    }
}
