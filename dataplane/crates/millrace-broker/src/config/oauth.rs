//! `sasl.oauthbearer.*`: what tokens of OAUTHBEARER must say, and where their keys are (KIP-768).

use std::{path::PathBuf, time::Duration};

use millrace_properties::{JaasEntry, OAUTH_MODULE};
use millrace_security::sasl::oauth::TokenRules;

use super::{MILLIS_MAX, reader::Reader};

const JWKS_URL: &str = "sasl.oauthbearer.jwks.endpoint.url";
const JWKS_REFRESH: &str = "sasl.oauthbearer.jwks.endpoint.refresh.ms";
const AUDIENCE: &str = "sasl.oauthbearer.expected.audience";
const ISSUER: &str = "sasl.oauthbearer.expected.issuer";
const SCOPE_CLAIM: &str = "sasl.oauthbearer.scope.claim.name";
const SUB_CLAIM: &str = "sasl.oauthbearer.sub.claim.name";
const CLOCK_SKEW: &str = "sasl.oauthbearer.clock.skew.seconds";
const JAAS: &str = "oauthbearer.sasl.jaas.config";
const TRUSTSTORE: &str = "ssl.truststore.location";

/// Kafka's default of [`JWKS_REFRESH`].
const REFRESH_DEFAULT: Duration = Duration::from_secs(3_600);
/// Kafka's default of [`CLOCK_SKEW`].
const CLOCK_SKEW_DEFAULT: Duration = Duration::from_secs(30);
/// With more, tokens would be accepted long after they have expired.
const CLOCK_SKEW_SECONDS_MAX: u64 = 600;

/// OAUTHBEARER of one listener.
#[derive(Debug, Clone)]
pub struct OauthConfig {
    /// What tokens must say.
    pub rules: TokenRules,
    /// `sasl.oauthbearer.jwks.endpoint.url`
    pub keys: KeySource,
    /// `sasl.oauthbearer.jwks.endpoint.refresh.ms`
    pub refresh: Duration,
    /// `ssl.truststore.location` of the login module: who issues the certificate of the endpoint, where that
    /// is no public authority.
    pub truststore: Option<PathBuf>,
}

/// Where the keys of tokens are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// `file:///…`
    File(PathBuf),
    /// `https://…`
    Https(String),
}

pub(super) fn read_oauth(r: &mut Reader<'_>, listener: &str) -> Option<OauthConfig> {
    let keys = read_keys(r, listener)?;
    let list = r.for_listener(listener, AUDIENCE).unwrap_or_default();
    let audiences = list.split(',').map(str::trim);
    let audiences = audiences.filter(|one| !one.is_empty()).map(str::to_owned);
    let claim = |name: Option<String>, default: &str| name.unwrap_or_else(|| default.to_owned());
    let rules = TokenRules {
        audiences: audiences.collect(),
        issuer: r.for_listener(listener, ISSUER),
        scope_claim: claim(r.for_listener(listener, SCOPE_CLAIM), "scope"),
        sub_claim: claim(r.for_listener(listener, SUB_CLAIM), "sub"),
        clock_skew: read_clock_skew(r, listener),
    };
    let refresh = match r.for_listener(listener, JWKS_REFRESH) {
        None => REFRESH_DEFAULT,
        Some(text) => match text.parse::<i64>() {
            Ok(ms @ 1_000..=MILLIS_MAX) => Duration::from_millis(ms.unsigned_abs()),
            _ => {
                let problem = format!("{text:?} is not milliseconds in range");
                let remedy = format!("write 1000 to {MILLIS_MAX}");
                r.fail(JWKS_REFRESH, problem, &remedy);
                REFRESH_DEFAULT
            }
        },
    };
    Some(OauthConfig {
        rules,
        keys,
        refresh,
        truststore: read_truststore(r, listener),
    })
}

fn read_keys(r: &mut Reader<'_>, listener: &str) -> Option<KeySource> {
    let url = r.for_listener(listener, JWKS_URL).unwrap_or_default();
    if let Some(path) = url.strip_prefix("file:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        return Some(KeySource::File(super::absolute(path)));
    }
    if url.starts_with("https://") {
        return Some(KeySource::Https(url));
    }
    let problem = match url.as_str() {
        "" => format!("OAUTHBEARER on the listener {listener} has no keys"),
        // Over http:, an attacker on the network could replace the keys.
        other => format!("{other:?} is neither an https: nor a file: URL"),
    };
    r.fail(
        JWKS_URL,
        problem,
        "write the https:// URL of your issuer's JSON Web Key Set, or file:///path of a copy",
    );
    None
}

fn read_clock_skew(r: &mut Reader<'_>, listener: &str) -> Duration {
    let Some(text) = r.for_listener(listener, CLOCK_SKEW) else {
        return CLOCK_SKEW_DEFAULT;
    };
    match text.parse() {
        Ok(seconds @ 0..=CLOCK_SKEW_SECONDS_MAX) => Duration::from_secs(seconds),
        _ => {
            let problem = format!("{text:?} is not seconds in range");
            let remedy = format!("write 0 to {CLOCK_SKEW_SECONDS_MAX}");
            r.fail(CLOCK_SKEW, problem, &remedy);
            CLOCK_SKEW_DEFAULT
        }
    }
}

/// The login module of a broker has options for the connection to the endpoint, as in Kafka.
fn read_truststore(r: &mut Reader<'_>, listener: &str) -> Option<PathBuf> {
    let text = r.for_listener(listener, JAAS)?;
    let remedy = format!("write {OAUTH_MODULE} required {TRUSTSTORE}=\"/path/ca.pem\";");
    let problem = match text.parse::<JaasEntry>() {
        Ok(entry) if entry.module == OAUTH_MODULE => {
            let path = entry.options.get(TRUSTSTORE);
            return path.map(|path| super::absolute(path));
        }
        Ok(entry) => format!("{} is not the module of OAUTHBEARER", entry.module),
        Err(error) => error.to_string(),
    };
    r.fail(JAAS, problem, &remedy);
    None
}
