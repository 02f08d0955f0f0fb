//! One rule, and filters over rules.

use std::fmt;

use crate::{
    acl::{
        HOST_BYTES_MAX, RESOURCE_NAME_BYTES_MAX,
        kinds::{Operation, PatternType, Permission, ResourceType},
    },
    principal::{InvalidPrincipal, Principal},
};

/// The only name of a resource of the type cluster.
pub const CLUSTER_NAME: &str = "kafka-cluster";

/// Every name, as a rule's resource name, host, or the name of its principal.
pub(super) const WILDCARD: &str = "*";

/// Kafka's codes that match everything in a filter, and, for patterns, every pattern that fits a name.
const ANY: i8 = 1;
const MATCH: i8 = 2;

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rule {
    /// What it speaks of.
    pub resource_type: ResourceType,
    /// The resource's name, the beginning of it, or `*`.
    pub resource_name: Box<str>,
    /// How the name is meant.
    pub pattern: PatternType,
    /// To whom; `User:*` is every user.
    pub principal: Principal,
    /// From which address; `*` is every one.
    pub host: Box<str>,
    /// To do what.
    pub operation: Operation,
    /// Given or taken.
    pub permission: Permission,
}

/// A rule or a filter as it stands in a request or a table: Kafka's codes and texts, unchecked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleCodes<T> {
    /// See [`ResourceType`].
    pub resource_type: i8,
    /// The resource's name.
    pub resource_name: T,
    /// See [`PatternType`].
    pub pattern: i8,
    /// The principal.
    pub principal: T,
    /// The host.
    pub host: T,
    /// See [`Operation`].
    pub operation: i8,
    /// See [`Permission`].
    pub permission: i8,
}

/// A rule is not one. The text is for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRule {
    /// A code that Kafka does not define, or that only filters may have.
    #[error("the ACL's {0} has the code {1}, which no ACL may have")]
    Code(&'static str, i8),
    /// The resource's name.
    #[error(
        "a resource name has 1 to {RESOURCE_NAME_BYTES_MAX} bytes, and the cluster's is {CLUSTER_NAME}"
    )]
    ResourceName,
    /// The host.
    #[error("an ACL's host is * or an address of at most {HOST_BYTES_MAX} bytes")]
    Host,
    /// The principal.
    #[error(transparent)]
    Principal(#[from] InvalidPrincipal),
}

impl RuleCodes<String> {
    /// Checks every part.
    ///
    /// # Errors
    /// The first part that is wrong.
    pub fn check(self) -> Result<Rule, InvalidRule> {
        let resource_type = ResourceType::from_code(self.resource_type)
            .ok_or(InvalidRule::Code("resource type", self.resource_type))?;
        let pattern = PatternType::from_code(self.pattern)
            .ok_or(InvalidRule::Code("pattern type", self.pattern))?;
        let operation = Operation::from_code(self.operation)
            .ok_or(InvalidRule::Code("operation", self.operation))?;
        let permission = Permission::from_code(self.permission)
            .ok_or(InvalidRule::Code("permission type", self.permission))?;
        let name = &*self.resource_name;
        let is_cluster = resource_type == ResourceType::Cluster;
        let is_named = !name.is_empty() && name.len() <= RESOURCE_NAME_BYTES_MAX;
        if !is_named || (is_cluster && name != CLUSTER_NAME) {
            return Err(InvalidRule::ResourceName);
        }
        if self.host.is_empty() || self.host.len() > HOST_BYTES_MAX {
            return Err(InvalidRule::Host);
        }
        Ok(Rule {
            resource_type,
            resource_name: self.resource_name.into(),
            pattern,
            principal: self.principal.parse()?,
            host: self.host.into(),
            operation,
            permission,
        })
    }
}

impl Rule {
    /// As it travels and is stored.
    #[must_use]
    pub fn codes(&self) -> RuleCodes<String> {
        RuleCodes {
            resource_type: self.resource_type.code(),
            resource_name: self.resource_name.to_string(),
            pattern: self.pattern.code(),
            principal: self.principal.to_string(),
            host: self.host.to_string(),
            operation: self.operation.code(),
            permission: self.permission.code(),
        }
    }

    /// Whether it speaks of the resource of this name, which is of its type.
    fn names(&self, name: &str) -> bool {
        match self.pattern {
            PatternType::Literal => &*self.resource_name == name || is_wildcard(self),
            PatternType::Prefixed => name.starts_with(&*self.resource_name),
        }
    }
}

impl fmt::Display for Rule {
    /// `Allow Write on Topic orders (Prefixed) to User:alice from *`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            resource_type,
            resource_name,
            pattern,
            principal,
            host,
            operation,
            permission,
        } = self;
        write!(
            f,
            "{permission:?} {operation:?} on {resource_type:?} {resource_name} ({pattern:?}) to {principal} from {host}"
        )
    }
}

pub(super) fn is_wildcard(rule: &Rule) -> bool {
    rule.pattern == PatternType::Literal && &*rule.resource_name == WILDCARD
}

/// Which patterns a filter finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatternFilter {
    /// Every one.
    Any,
    /// Those that name the given resource: by its name, by a prefix of it, or by `*`.
    Match,
    /// Those of this type.
    Is(PatternType),
}

/// Which rules are meant, as DescribeAcls and DeleteAcls say it. What is absent is not looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    resource_type: Option<ResourceType>,
    resource_name: Option<String>,
    pattern: PatternFilter,
    principal: Option<String>,
    host: Option<String>,
    operation: Option<Operation>,
    permission: Option<Permission>,
}

/// A filter is not one. The text is for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the filter's {0} has the code {1}, which Kafka does not define")]
pub struct InvalidFilter(&'static str, i8);

impl RuleCodes<Option<String>> {
    /// Checks every part.
    ///
    /// # Errors
    /// A code that Kafka does not define.
    pub fn check_filter(self) -> Result<Filter, InvalidFilter> {
        let pattern = match self.pattern {
            ANY => PatternFilter::Any,
            MATCH => PatternFilter::Match,
            code => PatternFilter::Is(
                PatternType::from_code(code).ok_or(InvalidFilter("pattern type", code))?,
            ),
        };
        Ok(Filter {
            resource_type: any_or(self.resource_type, ResourceType::from_code, "resource type")?,
            resource_name: self.resource_name,
            pattern,
            principal: self.principal,
            host: self.host,
            operation: any_or(self.operation, Operation::from_code, "operation")?,
            permission: any_or(self.permission, Permission::from_code, "permission type")?,
        })
    }
}

fn any_or<T>(
    code: i8,
    from_code: impl Fn(i8) -> Option<T>,
    what: &'static str,
) -> Result<Option<T>, InvalidFilter> {
    match code {
        ANY => Ok(None),
        code => from_code(code).map(Some).ok_or(InvalidFilter(what, code)),
    }
}

impl Filter {
    /// Whether it finds this rule.
    #[must_use]
    pub fn matches(&self, rule: &Rule) -> bool {
        fn is<T: PartialEq>(wanted: Option<&T>, have: &T) -> bool {
            wanted.is_none_or(|wanted| wanted == have)
        }
        let text = |wanted: &Option<String>, have: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == have)
        };
        is(self.resource_type.as_ref(), &rule.resource_type)
            && is(self.operation.as_ref(), &rule.operation)
            && is(self.permission.as_ref(), &rule.permission)
            && text(&self.principal, rule.principal.as_str())
            && text(&self.host, &rule.host)
            && self.matches_pattern(rule)
    }

    fn matches_pattern(&self, rule: &Rule) -> bool {
        let name = self.resource_name.as_deref();
        match self.pattern {
            PatternFilter::Match => name.is_none_or(|name| rule.names(name)),
            PatternFilter::Any => name.is_none_or(|name| name == &*rule.resource_name),
            PatternFilter::Is(pattern) => {
                pattern == rule.pattern && name.is_none_or(|name| name == &*rule.resource_name)
            }
        }
    }
}
