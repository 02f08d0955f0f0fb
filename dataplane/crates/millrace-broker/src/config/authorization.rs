//! Who may do what: `authorizer.class.name`, `super.users` and `allow.everyone.if.no.acl.found`.

use std::collections::HashSet;

use millrace_security::{InvalidPrincipal, Principal, acl::AuthorizerConfig};

use super::reader::Reader;

const CLASS: &str = "authorizer.class.name";
const SUPER_USERS: &str = "super.users";
const ALLOW_IF_NO_ACL: &str = "allow.everyone.if.no.acl.found";

/// Kafka's authorizer, whose decisions ours are.
const STANDARD_AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

/// The authorizer's settings; nothing where there is no authorizer, which lets everybody do everything.
pub(super) fn read_authorizer(r: &mut Reader<'_>) -> Option<AuthorizerConfig> {
    let class = r.text(CLASS, "");
    let super_users = read_super_users(r);
    let allow_if_no_rule = r.flag(ALLOW_IF_NO_ACL, false);
    match class.as_str() {
        STANDARD_AUTHORIZER => Some(AuthorizerConfig {
            super_users,
            allow_if_no_rule,
        }),
        "" => {
            if !super_users.is_empty() || allow_if_no_rule {
                let problem = "super.users and allow.everyone.if.no.acl.found have no effect without an authorizer";
                let remedy = format!("write {STANDARD_AUTHORIZER}, or remove them");
                r.fail(CLASS, problem, &remedy);
            }
            None
        }
        other => {
            let problem = format!("the authorizer {other} is not supported");
            let remedy = format!("write {STANDARD_AUTHORIZER}, or nothing for no authorization");
            r.fail(CLASS, problem, &remedy);
            None
        }
    }
}

/// Separated by semicolons, because names of certificates have commas.
fn read_super_users(r: &mut Reader<'_>) -> HashSet<Principal> {
    let text = r.text(SUPER_USERS, "");
    let names = text.split(';').map(str::trim);
    let mut users = HashSet::new();
    for name in names.filter(|name| !name.is_empty()) {
        match name.parse::<Principal>() {
            Ok(user) if user.is_reserved() => {
                let remedy = format!("remove {user}; what the broker's own users may do is fixed");
                r.fail(SUPER_USERS, InvalidPrincipal::Reserved, &remedy);
            }
            Ok(user) => {
                users.insert(user);
            }
            Err(error) => {
                let remedy = "write User:alice;User:bob, with semicolons between";
                r.fail(SUPER_USERS, error, remedy);
            }
        }
    }
    users
}
