//! What the broker's own principals may do. It is fixed: no ACL adds or takes anything, so that no change of a
//! tenant's ACLs can keep the control plane out.

use crate::{
    acl::kinds::{Operation, ResourceType},
    principal::{CONTROL_PLANE_USER, RECORDS_USER},
};

/// Topics whose records the control plane writes and reads: of its smoke check, which are internal, and of the
/// benchmarks that a tenant starts.
const OWN_TOPICS: [&str; 2] = ["__millrace_smoke_", "millrace-benchmark-"];

/// A principal that no tenant can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnPrincipal {
    /// Manages topics, users, ACLs, quotas and settings, describes groups, and sees no records of tenants.
    ControlPlane,
    /// Reads and writes records for callers of the admin HTTP, learns where other brokers' partitions end, and
    /// coordinates transactions with other brokers.
    Records,
}

impl OwnPrincipal {
    /// The one of this name, written `User:name`.
    pub(super) fn of(principal: &str) -> Option<Self> {
        match principal.strip_prefix("User:")? {
            CONTROL_PLANE_USER => Some(Self::ControlPlane),
            RECORDS_USER => Some(Self::Records),
            _ => None,
        }
    }

    /// Whether it may do this to the resource of this name.
    pub(super) fn may(self, operation: Operation, resource: ResourceType, name: &str) -> bool {
        use Operation::{
            Alter, AlterConfigs, ClusterAction, Create, Delete, Describe, DescribeConfigs,
            IdempotentWrite, Read, Write,
        };
        match (self, resource) {
            (Self::ControlPlane, ResourceType::Topic) => match operation {
                Create | Delete | Alter | Describe | AlterConfigs | DescribeConfigs => true,
                Read | Write => OWN_TOPICS.iter().any(|prefix| name.starts_with(prefix)),
                _ => false,
            },
            (Self::ControlPlane, ResourceType::Group) => operation == Describe,
            (Self::ControlPlane, ResourceType::Cluster) => matches!(
                operation,
                Create | Alter | Describe | AlterConfigs | DescribeConfigs | IdempotentWrite
            ),
            (Self::Records, ResourceType::Topic) => matches!(operation, Read | Write | Describe),
            (Self::Records, ResourceType::Cluster) => {
                matches!(operation, ClusterAction | Describe | IdempotentWrite)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_plane_manages_and_sees_no_records() {
        let own = OwnPrincipal::of("User:__millrace").expect("its own");
        let topic = |operation, name| own.may(operation, ResourceType::Topic, name);
        for operation in [Operation::Read, Operation::Write] {
            assert!(!topic(operation, "orders"));
            assert!(topic(operation, "__millrace_smoke_0a1b"));
            assert!(topic(operation, "millrace-benchmark-01h"));
            assert!(!own.may(operation, ResourceType::Group, "billing"));
        }
        assert!(topic(Operation::Delete, "orders"));
        assert!(own.may(Operation::Alter, ResourceType::Cluster, "kafka-cluster"));
        assert!(!own.may(
            Operation::ClusterAction,
            ResourceType::Cluster,
            "kafka-cluster"
        ));
        assert!(!own.may(Operation::Write, ResourceType::TransactionalId, "payments"));
    }

    #[test]
    fn records_over_http_are_read_and_written_and_nothing_is_managed() {
        let own = OwnPrincipal::of("User:__millrace_records").expect("its own");
        for operation in ResourceType::Topic.operations() {
            let wanted = [Operation::Read, Operation::Write, Operation::Describe];
            let may = own.may(*operation, ResourceType::Topic, "orders");
            assert_eq!(may, wanted.contains(operation), "{operation:?}");
        }
        assert!(!own.may(Operation::Alter, ResourceType::Cluster, "kafka-cluster"));
        assert_eq!(OwnPrincipal::of("User:__millrace_other"), None);
        assert_eq!(OwnPrincipal::of("Group:__millrace"), None);
    }
}
