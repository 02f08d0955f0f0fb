//! How each listener's clients are protected: `listener.security.protocol.map`, `ssl.*` and `sasl.*`, each
//! of which `listener.name.<listener>.` may stand before, as in Kafka.

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc, time::Duration};

use millrace_net::{ClientAuth, TlsSettings, TlsVersion};
use millrace_properties::{JaasEntry, PLAIN_MODULE, pem_lines};
use millrace_security::{
    Principal,
    certificate::PrincipalMapping,
    credentials::{PlainUsers, USER_BYTES_MAX},
    sasl::Mechanism,
};

use super::{
    Endpoint, MILLIS_MAX,
    oauth::{OauthConfig, read_oauth},
    reader::Reader,
};

const PROTOCOL_MAP: &str = "listener.security.protocol.map";
const MECHANISMS: &str = "sasl.enabled.mechanisms";
const KEYSTORE_TYPE: &str = "ssl.keystore.type";
const KEYSTORE: &str = "ssl.keystore.location";
const CHAIN: &str = "ssl.keystore.certificate.chain";
const KEY: &str = "ssl.keystore.key";
const CLIENT_AUTH: &str = "ssl.client.auth";
const MAPPING: &str = "ssl.principal.mapping.rules";
const TRUSTSTORE_TYPE: &str = "ssl.truststore.type";
const TRUSTSTORE: &str = "ssl.truststore.location";
const TRUSTSTORE_PASSWORD: &str = "ssl.truststore.password";
const TRUSTED: &str = "ssl.truststore.certificates";
const VERSIONS: &str = "ssl.enabled.protocols";
const JAAS: &str = "sasl.jaas.config";
const REAUTH_MAX: &str = "connections.max.reauth.ms";

/// How a listener's clients are protected. Plaintext has neither part.
#[derive(Debug, Clone, Default)]
pub struct Protection {
    /// Encryption.
    pub tls: Option<TlsConfig>,
    /// Authentication.
    pub sasl: Option<SaslConfig>,
}

impl Protection {
    /// Whether a client needs neither certificates nor a password.
    #[must_use]
    pub fn is_plaintext(&self) -> bool {
        self.tls.is_none() && self.sasl.is_none()
    }
}

/// TLS of one listener.
#[derive(Debug, Clone)]
pub struct TlsConfig {
    /// Where the certificate chain and its private key stand.
    pub keystore: Keystore,
    /// Where the certificates stand that clients' certificates are issued by, if clients are asked for one.
    pub truststore: Option<Truststore>,
    /// `ssl.enabled.protocols` and `ssl.client.auth`.
    pub settings: TlsSettings,
    /// `ssl.principal.mapping.rules`
    pub mapping: Arc<PrincipalMapping>,
}

/// The certificates of authorities, and their revocation lists, as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Truststore {
    /// `ssl.truststore.location`; read again when it changes.
    File(PathBuf),
    /// `ssl.truststore.certificates`
    Inline(String),
}

/// A certificate chain and its private key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub enum Keystore {
    /// `ssl.keystore.location`: one file with both; read again when it changes.
    File(PathBuf),
    /// `ssl.keystore.certificate.chain` and `ssl.keystore.key`.
    Inline {
        /// The chain.
        chain: String,
        /// The key.
        key: String,
    },
}

/// The key is a secret.
impl fmt::Debug for Keystore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Inline { .. } => f.write_str("Inline"),
        }
    }
}

/// SASL of one listener.
#[derive(Debug, Clone)]
pub struct SaslConfig {
    /// `sasl.enabled.mechanisms`
    pub mechanisms: Vec<Mechanism>,
    /// The users of PLAIN.
    pub plain: PlainUsers,
    /// OAUTHBEARER, if it is enabled.
    pub oauth: Option<OauthConfig>,
    /// `connections.max.reauth.ms`, if sessions have an end.
    pub session_max: Option<Duration>,
}

/// A security protocol, by its name in Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Protocol {
    tls: bool,
    sasl: bool,
}

impl Protocol {
    fn of(name: &str) -> Option<Self> {
        let (tls, sasl) = match name {
            "PLAINTEXT" => (false, false),
            "SSL" => (true, false),
            "SASL_PLAINTEXT" => (false, true),
            "SASL_SSL" => (true, true),
            _ => return None,
        };
        Some(Self { tls, sasl })
    }
}

/// The protection of each listener, by its name.
pub(super) fn read_protections(
    r: &mut Reader<'_>,
    listeners: &[Endpoint],
) -> BTreeMap<String, Protection> {
    let map = read_map(r);
    let mut protections = BTreeMap::new();
    for Endpoint { name, .. } in listeners {
        // A listener may bear a protocol's name.
        let protocol = map.get(name).copied().or_else(|| Protocol::of(name));
        let Some(Protocol { tls, sasl }) = protocol else {
            let problem = format!("the listener {name} has no security protocol");
            let remedy = format!(
                "add {name}:PROTOCOL with PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL for PROTOCOL"
            );
            r.fail(PROTOCOL_MAP, problem, &remedy);
            continue;
        };
        let protection = Protection {
            tls: tls.then(|| read_tls(r, name, sasl)).flatten(),
            sasl: sasl.then(|| read_sasl(r, name)),
        };
        protections.insert(name.clone(), protection);
    }
    protections
}

fn read_map(r: &mut Reader<'_>) -> BTreeMap<String, Protocol> {
    let default = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL";
    let text = r.text(PROTOCOL_MAP, default);
    let mut map = BTreeMap::new();
    for entry in words(&text) {
        let (name, protocol) = entry.split_once(':').unwrap_or((entry, ""));
        match Protocol::of(&protocol.trim().to_ascii_uppercase()) {
            Some(protocol) => {
                map.insert(name.trim().to_ascii_uppercase(), protocol);
            }
            None => {
                let problem = format!("{entry:?} names no security protocol");
                let remedy = "write NAME:PROTOCOL with PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL";
                r.fail(PROTOCOL_MAP, problem, remedy);
            }
        }
    }
    map
}

fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
}

fn read_tls(r: &mut Reader<'_>, listener: &str, sasl: bool) -> Option<TlsConfig> {
    refuse_unsupported(r, listener);
    let client_auth = read_client_auth(r, listener, sasl);
    let settings = TlsSettings {
        versions: read_versions(r, listener),
        client_auth,
    };
    let truststore = (client_auth != ClientAuth::None).then(|| read_truststore(r, listener));
    let mapping = read_mapping(r, listener);
    let chain = r.for_listener(listener, CHAIN);
    let key = r.for_listener(listener, KEY);
    let location = r.for_listener(listener, KEYSTORE);
    let keystore = match (location, chain, key) {
        (Some(path), None, None) => Keystore::File(super::absolute(&path)),
        (None, Some(chain), Some(key)) => Keystore::Inline {
            chain: pem_lines(&chain),
            key: pem_lines(&key),
        },
        _ => {
            let problem =
                format!("the listener {listener} needs a certificate and its private key");
            let remedy = format!(
                "set {KEYSTORE} to a PEM file with both, or {CHAIN} and {KEY} to PEM texts, but not all"
            );
            r.fail(KEYSTORE, problem, &remedy);
            return None;
        }
    };
    Some(TlsConfig {
        keystore,
        truststore: truststore.flatten(),
        settings,
        mapping: Arc::new(mapping),
    })
}

/// As in Kafka, what holds for all listeners does not hold for those with SASL (KIP-684): clients that
/// have a password need no certificate unless the listener's own setting asks for one.
fn read_client_auth(r: &mut Reader<'_>, listener: &str, sasl: bool) -> ClientAuth {
    let text = match sasl {
        true => r.for_listener_only(listener, CLIENT_AUTH),
        false => r.for_listener(listener, CLIENT_AUTH),
    };
    match text.as_deref().map(str::to_ascii_lowercase).as_deref() {
        None | Some("none") => ClientAuth::None,
        Some("requested") => ClientAuth::Requested,
        Some("required") => ClientAuth::Required,
        Some(other) => {
            let problem = format!("{other:?} is not known");
            r.fail(CLIENT_AUTH, problem, "write none, requested or required");
            ClientAuth::Required
        }
    }
}

fn read_truststore(r: &mut Reader<'_>, listener: &str) -> Option<Truststore> {
    let kind = r.for_listener(listener, TRUSTSTORE_TYPE);
    if let Some(kind) = kind.filter(|kind| !kind.eq_ignore_ascii_case("PEM")) {
        let problem = format!("the truststore type {kind} is not supported");
        let remedy = "convert the truststore to PEM, and write PEM";
        r.fail(TRUSTSTORE_TYPE, problem, remedy);
    }
    if r.for_listener(listener, TRUSTSTORE_PASSWORD).is_some() {
        let remedy = "remove it; a PEM file with certificates has no password";
        r.fail(TRUSTSTORE_PASSWORD, "it is not supported", remedy);
    }
    let location = r.for_listener(listener, TRUSTSTORE);
    match (location, r.for_listener(listener, TRUSTED)) {
        (Some(path), None) => Some(Truststore::File(super::absolute(&path))),
        (None, Some(text)) => Some(Truststore::Inline(pem_lines(&text))),
        _ => {
            let problem = format!(
                "the listener {listener} asks clients for certificates, and must know who issues them"
            );
            let remedy = format!(
                "set {TRUSTSTORE} to a PEM file with the authorities' certificates, or {TRUSTED} to their PEM texts, but not both"
            );
            r.fail(TRUSTSTORE, problem, &remedy);
            None
        }
    }
}

fn read_mapping(r: &mut Reader<'_>, listener: &str) -> PrincipalMapping {
    let Some(text) = r.for_listener(listener, MAPPING) else {
        return PrincipalMapping::default();
    };
    match text.parse() {
        Ok(mapping) => mapping,
        Err(error) => {
            let remedy = "write rules such as RULE:^CN=([^,]*).*$/$1/,DEFAULT";
            r.fail(MAPPING, error, remedy);
            PrincipalMapping::default()
        }
    }
}

/// What would make a listener less secure than its operator thinks must not be ignored.
fn refuse_unsupported(r: &mut Reader<'_>, listener: &str) {
    let kind = r.for_listener(listener, KEYSTORE_TYPE);
    if let Some(kind) = kind.filter(|kind| !kind.eq_ignore_ascii_case("PEM")) {
        let problem = format!("the keystore type {kind} is not supported");
        let remedy = "convert the keystore to PEM, and write PEM";
        r.fail(KEYSTORE_TYPE, problem, remedy);
    }
    for key in ["ssl.key.password", "ssl.cipher.suites"] {
        if r.for_listener(listener, key).is_some() {
            let remedy = "remove it; keys are stored unencrypted, and the cipher suites are fixed";
            r.fail(key, "it is not supported", remedy);
        }
    }
}

fn read_versions(r: &mut Reader<'_>, listener: &str) -> Vec<TlsVersion> {
    let text = r.for_listener(listener, VERSIONS);
    let text = text.unwrap_or_else(|| "TLSv1.2,TLSv1.3".to_owned());
    let version = |word: &str| match word {
        "TLSv1.2" => Some(TlsVersion::Tls12),
        "TLSv1.3" => Some(TlsVersion::Tls13),
        _ => None,
    };
    let versions: Option<Vec<TlsVersion>> = words(&text).map(version).collect();
    match versions {
        Some(versions) if !versions.is_empty() => versions,
        _ => {
            let problem = format!("{text:?} is not a list of TLSv1.2 and TLSv1.3");
            r.fail(
                VERSIONS,
                problem,
                "write TLSv1.2,TLSv1.3, or remove the line",
            );
            Vec::new()
        }
    }
}

fn read_sasl(r: &mut Reader<'_>, listener: &str) -> SaslConfig {
    let mechanisms = read_mechanisms(r, listener);
    let plain = match mechanisms.contains(&Mechanism::Plain) {
        true => read_plain_users(r, listener),
        false => Vec::new(),
    };
    let oauth = mechanisms.contains(&Mechanism::OauthBearer);
    let oauth = oauth.then(|| read_oauth(r, listener)).flatten();
    SaslConfig {
        mechanisms,
        plain: PlainUsers::new(plain),
        oauth,
        session_max: read_session_max(r, listener),
    }
}

fn read_mechanisms(r: &mut Reader<'_>, listener: &str) -> Vec<Mechanism> {
    let text = r.for_listener(listener, MECHANISMS).unwrap_or_default();
    let mut mechanisms = Vec::new();
    for word in words(&text) {
        match word.parse::<Mechanism>() {
            Ok(mechanism) => mechanisms.push(mechanism),
            Err(error) => r.fail(
                MECHANISMS,
                error,
                "write those that clients of the listener use",
            ),
        }
    }
    if text.is_empty() {
        let problem = format!("clients of the listener {listener} have no mechanism to sign in by");
        let remedy = "write one or more of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER";
        r.fail(MECHANISMS, problem, remedy);
    }
    mechanisms
}

fn read_plain_users(r: &mut Reader<'_>, listener: &str) -> Vec<(String, String)> {
    let key = format!("plain.{JAAS}");
    let own = format!("listener.name.{}.{key}", listener.to_ascii_lowercase());
    let remedy = format!("write {own}={PLAIN_MODULE} required user_alice=\"her password\";");
    let Some(text) = r.for_listener(listener, &key) else {
        let problem = format!("PLAIN on the listener {listener} has no users");
        r.fail(JAAS, problem, &remedy);
        return Vec::new();
    };
    let entry = match text.parse::<JaasEntry>() {
        Ok(entry) if entry.module == PLAIN_MODULE => entry,
        Ok(entry) => {
            r.fail(
                JAAS,
                format!("{} is not the module of PLAIN", entry.module),
                &remedy,
            );
            return Vec::new();
        }
        Err(error) => {
            r.fail(JAAS, error, &remedy);
            return Vec::new();
        }
    };
    let users = entry.options.into_iter();
    let users =
        users.filter_map(|(option, value)| Some((option.strip_prefix("user_")?.to_owned(), value)));
    let users: Vec<(String, String)> = users.collect();
    let legal = |(user, password): &(String, String)| {
        (1..=USER_BYTES_MAX).contains(&user.len()) && !password.is_empty()
    };
    if users.is_empty() || !users.iter().all(legal) {
        let problem = format!(
            "PLAIN on the listener {listener} has a user without name or password, or none"
        );
        r.fail(JAAS, problem, &remedy);
    }
    // Nobody could sign in as one of them.
    for error in users
        .iter()
        .filter_map(|(user, _)| Principal::user(user).err())
    {
        let problem =
            format!("a user of PLAIN on the listener {listener} has no legal name: {error}");
        r.fail(JAAS, problem, "give the user another name");
    }
    users
}

fn read_session_max(r: &mut Reader<'_>, listener: &str) -> Option<Duration> {
    let text = r.for_listener(listener, REAUTH_MAX)?;
    match text.parse::<i64>() {
        Ok(0) => None,
        Ok(ms @ 1..=MILLIS_MAX) => u64::try_from(ms).ok().map(Duration::from_millis),
        _ => {
            let problem = format!("{text:?} is not milliseconds in range");
            let remedy =
                format!("write 0 to {MILLIS_MAX}; 0 lets sessions last as long as connections");
            r.fail(REAUTH_MAX, problem, &remedy);
            None
        }
    }
}
