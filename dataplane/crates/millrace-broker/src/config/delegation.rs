//! Delegation tokens: `delegation.token.*`.

use std::time::Duration;

use millrace_security::delegation::TokenConfig;

use super::{MILLIS_MAX, reader::Reader};

const SECRET_KEY: &str = "delegation.token.secret.key";

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// The settings of delegation tokens; nothing without a secret key, which disables them. Names and defaults are
/// Kafka's.
pub(super) fn read_delegation(r: &mut Reader<'_>) -> Option<TokenConfig> {
    let in_range = 1..=MILLIS_MAX;
    let max_lifetime = r.millis(
        "delegation.token.max.lifetime.ms",
        7 * DAY,
        in_range.clone(),
    );
    let expiry_time = r.millis("delegation.token.expiry.time.ms", DAY, in_range.clone());
    let check_interval = r.millis("delegation.token.expiry.check.interval.ms", HOUR, in_range);
    match r.secret(SECRET_KEY)?.parse() {
        Ok(secret_key) => Some(TokenConfig {
            secret_key,
            max_lifetime,
            expiry_time,
            check_interval,
        }),
        Err(error) => {
            let remedy = "write a random text, such as what `openssl rand -base64 32` prints";
            r.fail(SECRET_KEY, error, remedy);
            None
        }
    }
}
