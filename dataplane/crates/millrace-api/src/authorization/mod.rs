//! What clients may do: every handler asks [`Rights`] before it tells or changes anything.
//!
//! Operations, resources and errors are those of Apache Kafka's `KafkaApis` and `ControllerApis`. Where no
//! authorizer is configured, everything is allowed and nothing is looked up.

mod audit;
mod decisions;

use std::sync::Arc;

use millrace_meta::{AclRow, MetaStore, StoreFailure};
use millrace_security::acl::{
    Authorizer, AuthorizerConfig, CLUSTER_NAME, Client, Operation, ResourceType, Rule, RuleCodes,
};
use millrace_time::SharedClock;
use millrace_wire::{
    error_code::{ErrorCode, NONE},
    service::Peer,
};

pub(crate) use self::audit::{Changed, FailedSignIn};
use self::{audit::Audit, decisions::Decisions};
use crate::call::Call;

/// The authorizer with the ACLs that are stored.
///
/// # Errors
/// The store failed, or holds what this program would never write.
pub async fn authorizer(
    meta: &dyn MetaStore,
    config: AuthorizerConfig,
) -> Result<Authorizer, StoreFailure> {
    Ok(Authorizer::new(config, stored_rules(meta).await?))
}

/// The ACLs that are stored.
///
/// # Errors
/// See [`authorizer`].
pub(crate) async fn stored_rules(meta: &dyn MetaStore) -> Result<Vec<Rule>, StoreFailure> {
    let rule = |row: AclRow| {
        let codes = RuleCodes {
            resource_type: row.resource_type,
            resource_name: row.resource_name,
            pattern: row.pattern_type,
            principal: row.principal,
            host: row.host,
            operation: row.operation,
            permission: row.permission,
        };
        let checked = codes.check();
        checked.map_err(|error| StoreFailure::Corrupt(format!("an ACL is invalid: {error}")))
    };
    meta.acls().await?.into_iter().map(rule).collect()
}

/// The authorizer, and what is counted and logged of its decisions.
#[derive(Debug)]
pub(crate) struct Authorization {
    authorizer: Option<Arc<Authorizer>>,
    decisions: Decisions,
    audit: Audit,
}

impl Authorization {
    pub(crate) fn new(authorizer: Option<Arc<Authorizer>>, clock: SharedClock) -> Self {
        Self {
            authorizer,
            decisions: Decisions::new(),
            audit: Audit::new(clock),
        }
    }

    /// Logs that somebody did not prove who it is.
    pub(crate) fn sign_in_failed(&self, failed: &FailedSignIn<'_>) {
        self.audit.sign_in_failed(failed);
    }
}

/// What a denial leaves in the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Denial {
    /// A line: the client asked for this resource.
    Logged,
    /// Nothing: the resource is left out of a list, or another right may do instead.
    Quiet,
}

/// What the client of one request may do.
#[derive(Debug, Clone)]
pub(crate) struct Rights {
    authorization: Arc<Authorization>,
    peer: Arc<Peer>,
    /// The client's address as ACLs name it; nothing where there is no authorizer.
    host: Option<Box<str>>,
}

impl Rights {
    pub(crate) fn new(authorization: &Arc<Authorization>, call: &Call) -> Self {
        let host = authorization.authorizer.as_ref();
        Self {
            authorization: Arc::clone(authorization),
            peer: Arc::clone(&call.peer),
            host: host.map(|_| call.peer.host().into()),
        }
    }

    /// Whether the client may do this to the resource of this name.
    pub(crate) fn allows(&self, operation: Operation, kind: ResourceType, name: &str) -> bool {
        self.decide(operation, kind, name, Denial::Logged)
    }

    /// The same for what is left out of an answer, or where another right may do instead.
    pub(crate) fn allows_quietly(
        &self,
        operation: Operation,
        kind: ResourceType,
        name: &str,
    ) -> bool {
        self.decide(operation, kind, name, Denial::Quiet)
    }

    /// # Errors
    /// `TOPIC_AUTHORIZATION_FAILED`.
    pub(crate) fn topic(&self, operation: Operation, name: &str) -> Result<(), ErrorCode> {
        match self.allows(operation, ResourceType::Topic, name) {
            true => Ok(()),
            false => Err(ErrorCode::TopicAuthorizationFailed),
        }
    }

    /// # Errors
    /// `GROUP_AUTHORIZATION_FAILED`.
    pub(crate) fn group(&self, operation: Operation, id: &str) -> Result<(), ErrorCode> {
        match self.allows(operation, ResourceType::Group, id) {
            true => Ok(()),
            false => Err(ErrorCode::GroupAuthorizationFailed),
        }
    }

    /// # Errors
    /// `CLUSTER_AUTHORIZATION_FAILED`.
    pub(crate) fn cluster(&self, operation: Operation) -> Result<(), ErrorCode> {
        match self.allows(operation, ResourceType::Cluster, CLUSTER_NAME) {
            true => Ok(()),
            false => Err(ErrorCode::ClusterAuthorizationFailed),
        }
    }

    /// # Errors
    /// `TRANSACTIONAL_ID_AUTHORIZATION_FAILED`.
    pub(crate) fn transactional_id(&self, operation: Operation, id: &str) -> Result<(), ErrorCode> {
        match self.allows(operation, ResourceType::TransactionalId, id) {
            true => Ok(()),
            false => Err(ErrorCode::TransactionalIdAuthorizationFailed),
        }
    }

    /// Whether an idempotent producer gets an id: it may write to some topic, or has the older right to
    /// write idempotently (KIP-679).
    ///
    /// # Errors
    /// `CLUSTER_AUTHORIZATION_FAILED`.
    pub(crate) fn idempotent_producer(&self) -> Result<(), ErrorCode> {
        let operation = Operation::IdempotentWrite;
        if self.allows_quietly(operation, ResourceType::Cluster, CLUSTER_NAME) {
            return Ok(());
        }
        let writes = self.client().is_some_and(|(authorizer, client)| {
            authorizer.allows_any(client, Operation::Write, ResourceType::Topic)
        });
        match writes {
            true => Ok(()),
            false => self.cluster(operation),
        }
    }

    /// Every operation on the resource that the client may do, as Kafka's bits (KIP-430).
    pub(crate) fn operations(&self, kind: ResourceType, name: &str) -> i32 {
        match (&self.authorization.authorizer, self.client()) {
            (None, _) => {
                let all = kind.operations().iter();
                all.fold(0, |bits, operation| bits | 1 << operation.code())
            }
            (Some(_), None) => 0,
            (Some(_), Some((authorizer, client))) => authorizer.allowed_bits(client, kind, name),
        }
    }

    /// The operations on the cluster; none for a client that may not describe it.
    pub(crate) fn cluster_operations(&self) -> i32 {
        match self.allows(Operation::Describe, ResourceType::Cluster, CLUSTER_NAME) {
            true => self.operations(ResourceType::Cluster, CLUSTER_NAME),
            false => 0,
        }
    }

    /// Logs a change that the client asked for: what, and what became of it. To be called only for what has
    /// passed authorization; a denial has been logged as that, and its error is ignored here.
    pub(crate) fn audit(&self, operation: Operation, changed: Changed, name: &str, error: i16) {
        let audit = &self.authorization.audit;
        audit.changed(&self.peer, (operation, changed, name), error);
    }

    /// The same for an ACL that was created or deleted.
    pub(crate) fn audit_acl(&self, operation: Operation, rule: &Rule) {
        self.audit(operation, Changed::Acl, &rule.to_string(), NONE);
    }

    /// Logs a denial that is not the authorizer's: the client is neither the owner nor a renewer.
    pub(crate) fn denied(&self, operation: Operation, kind: ResourceType, name: &str) {
        let audit = &self.authorization.audit;
        audit.denied(&self.peer, (operation, kind, name));
    }

    /// Whether the client may revoke everybody's delegation tokens: it may set everybody's passwords, too. Nobody
    /// may where there is no authorizer.
    pub(crate) fn revokes_tokens(&self) -> bool {
        self.client().is_some_and(|(authorizer, client)| {
            let cluster = ResourceType::Cluster;
            authorizer.allows(client, Operation::Alter, cluster, CLUSTER_NAME)
        })
    }

    fn client(&self) -> Option<(&Authorizer, Client<'_>)> {
        let authorizer = self.authorization.authorizer.as_deref()?;
        let client = Client {
            principal: self.peer.identity.principal()?,
            host: self.host.as_deref()?,
        };
        Some((authorizer, client))
    }

    fn decide(&self, operation: Operation, kind: ResourceType, name: &str, denial: Denial) -> bool {
        let Authorization {
            authorizer,
            decisions,
            audit,
        } = &*self.authorization;
        if authorizer.is_none() {
            return true;
        }
        let client = self.client();
        let allowed = client
            .is_some_and(|(authorizer, client)| authorizer.allows(client, operation, kind, name));
        match (allowed, denial) {
            (true, _) => decisions.count(operation, kind, true),
            (false, Denial::Quiet) => {}
            (false, Denial::Logged) => {
                decisions.count(operation, kind, false);
                audit.denied(&self.peer, (operation, kind, name));
            }
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use millrace_time::SystemClock;

    use super::*;

    /// The numbers that Kafka's tools print where there is no authorizer.
    #[test]
    fn operations_are_kafkas_bits() {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let rights = Rights {
            authorization: Arc::new(Authorization::new(None, SystemClock::shared())),
            peer: Arc::new(Peer::new(1, address, "PLAINTEXT".into())),
            host: None,
        };
        assert_eq!(rights.operations(ResourceType::Topic, "t"), 3_576);
        assert_eq!(rights.operations(ResourceType::Group, "g"), 3_400);
        assert_eq!(rights.cluster_operations(), 8_096);
    }
}
