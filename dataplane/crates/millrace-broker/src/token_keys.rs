//! The keys that tokens of OAUTHBEARER are signed with: fetched from their issuer at the start, from time to
//! time, and when a token names an unknown key.

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use millrace_security::sasl::oauth::{InvalidKeySet, Tokens};
use millrace_time::SharedClock;

use crate::config::{KeySource, OauthConfig};

/// How often it is looked whether keys are to be fetched.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The pause after a fetch that failed, and before one that a token with an unknown key asks for: such tokens
/// are easily made, and must not make the broker flood the issuer.
const PAUSE: Duration = Duration::from_secs(10);

/// How often a file is read, which costs nothing.
const FILE_INTERVAL: Duration = Duration::from_secs(5);

/// How long a fetch may take. The start of the broker waits for the first.
const FETCH_MAX: Duration = Duration::from_secs(10);

/// The largest key set, in bytes: a hundred keys with their certificates.
const KEY_SET_BYTES_MAX: usize = 1 << 20;

/// The key sets of a broker cannot be fetched at all. The text is for the operator.
#[derive(Debug, thiserror::Error)]
#[error("listener {listener}: sasl.oauthbearer: {problem}")]
pub struct KeySetError {
    listener: String,
    problem: String,
}

#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("{0}")]
    Read(#[from] std::io::Error),
    #[error("{0}")]
    Http(#[from] reqwest::Error),
    #[error("it has more than {KEY_SET_BYTES_MAX} bytes")]
    TooLarge,
    #[error("{0}")]
    Keys(#[from] InvalidKeySet),
}

/// The key sets of all listeners.
pub(crate) struct KeySets {
    sets: Vec<KeySet>,
    clock: SharedClock,
}

struct KeySet {
    listener: String,
    place: Place,
    refresh: Duration,
    /// Ends with the broker.
    tokens: Weak<Tokens>,
    fetched: Duration,
    due: Duration,
    /// Ids of keys that are left out, as far as they have been logged.
    ambiguous: Vec<String>,
}

enum Place {
    File(PathBuf),
    Https {
        url: String,
        client: Box<reqwest::Client>,
    },
}

impl KeySets {
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self {
            sets: Vec::new(),
            clock,
        }
    }

    /// The tokens of a listener, whose keys are fetched from now on.
    pub(crate) fn add(
        &mut self,
        listener: &str,
        config: &OauthConfig,
    ) -> Result<Arc<Tokens>, KeySetError> {
        let tokens = Arc::new(Tokens::new(config.rules.clone(), self.clock.clone()));
        let place = place(config).map_err(|problem| KeySetError {
            listener: listener.to_owned(),
            problem,
        })?;
        self.sets.push(KeySet {
            listener: listener.to_owned(),
            refresh: match place {
                Place::File(_) => FILE_INTERVAL.min(config.refresh),
                Place::Https { .. } => config.refresh,
            },
            place,
            tokens: Arc::downgrade(&tokens),
            fetched: Duration::ZERO,
            due: Duration::ZERO,
            ambiguous: Vec::new(),
        });
        Ok(tokens)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Fetches what is due.
    pub(crate) async fn fetch(&mut self) {
        for set in &mut self.sets {
            set.fetch_if_due(&self.clock).await;
        }
    }

    /// Follows the issuers, until the broker has gone.
    pub(crate) async fn follow(mut self) {
        while self.sets.iter().any(|set| set.tokens.strong_count() > 0) {
            tokio::time::sleep(LOOK_INTERVAL).await;
            self.fetch().await;
        }
    }
}

impl KeySet {
    async fn fetch_if_due(&mut self, clock: &SharedClock) {
        let Some(tokens) = self.tokens.upgrade() else {
            return;
        };
        let now = clock.now();
        let may_be_new = now >= self.fetched + PAUSE && tokens.take_missed_key();
        if now < self.due && !may_be_new {
            return;
        }
        let fetched = match self.place.read().await {
            Ok(json) => tokens.set_keys(&json).map_err(FetchError::from),
            Err(error) => Err(error),
        };
        let result = if fetched.is_ok() { "fetched" } else { "failed" };
        self.fetched = clock.now();
        self.due = self.fetched
            + match fetched {
                Ok(ambiguous) => {
                    self.report(ambiguous);
                    self.refresh
                }
                Err(error) => {
                    tracing::warn!(
                        listener = self.listener,
                        "the keys of OAUTHBEARER cannot be fetched from {}: {error}; the former keys stay",
                        self.place.name()
                    );
                    PAUSE.min(self.refresh)
                }
            };
        metrics::counter!(
            "millrace_token_key_fetches_total",
            "listener" => self.listener.clone(), "result" => result
        )
        .increment(1);
    }
}

impl KeySet {
    /// Logs which ids are ambiguous, once as long as they stay the same.
    fn report(&mut self, ambiguous: Vec<String>) {
        if !ambiguous.is_empty() && ambiguous != self.ambiguous {
            tracing::warn!(
                listener = self.listener,
                key_ids = ?ambiguous,
                "{} has several keys with the same id for the same algorithm; tokens of these ids are rejected, \
                 give each key an id of its own",
                self.place.name()
            );
        }
        self.ambiguous = ambiguous;
    }
}

fn place(config: &OauthConfig) -> Result<Place, String> {
    let url = match &config.keys {
        KeySource::File(path) => return Ok(Place::File(path.clone())),
        KeySource::Https(url) => url.clone(),
    };
    // The default of the process: the object store's client uses the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut client = reqwest::Client::builder()
        .https_only(true)
        .redirect(reqwest::redirect::Policy::none())
        .timeout(FETCH_MAX);
    if let Some(path) = &config.truststore {
        let read = |error: &dyn std::fmt::Display| {
            format!("ssl.truststore.location: {}: {error}", path.display())
        };
        let pem = std::fs::read(path).map_err(|error| read(&error))?;
        let roots = reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| read(&error))?;
        client = client.tls_certs_only(roots);
    }
    let client = client.build().map_err(|error| error.to_string())?;
    Ok(Place::Https {
        url,
        client: Box::new(client),
    })
}

impl Place {
    fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Https { url, .. } => url.clone(),
        }
    }

    async fn read(&self) -> Result<Vec<u8>, FetchError> {
        let (url, client) = match self {
            Self::File(path) => {
                if std::fs::metadata(path)?.len() > KEY_SET_BYTES_MAX as u64 {
                    return Err(FetchError::TooLarge);
                }
                return Ok(std::fs::read(path)?);
            }
            Self::Https { url, client } => (url, client),
        };
        let mut response = client.get(url).send().await?.error_for_status()?;
        let mut json = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if json.len() + chunk.len() > KEY_SET_BYTES_MAX {
                return Err(FetchError::TooLarge);
            }
            json.extend_from_slice(&chunk);
        }
        Ok(json)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use millrace_security::{
        credentials::{PlainUsers, ScramUsers},
        sasl::{Mechanism, Reply, Session, Users, oauth::TokenRules},
    };
    use millrace_testkit::TokenIssuer;
    use millrace_time::ManualClock;
    use serde_json::json;

    use super::*;

    fn rules() -> TokenRules {
        TokenRules {
            audiences: Vec::new(),
            issuer: None,
            scope_claim: "scope".to_owned(),
            sub_claim: "sub".to_owned(),
            clock_skew: Duration::ZERO,
        }
    }

    fn is_accepted(tokens: &Tokens, issuer: &TokenIssuer) -> bool {
        let users = Users {
            mechanisms: &[Mechanism::OauthBearer],
            plain: &PlainUsers::new([]),
            scram: &ScramUsers::new([]),
            tokens: Some(tokens),
            delegation: None,
        };
        let mut session = Session::default();
        session.handshake(users, "OAUTHBEARER").expect("enabled");
        let token = issuer.sign(&json!({ "sub": "alice", "exp": 3_600 }));
        let message = format!("n,,\u{1}auth=Bearer {token}\u{1}\u{1}");
        let reply = session.authenticate(users, message.as_bytes());
        matches!(reply, Ok(Reply::Done(..)))
    }

    fn publish(file: &Path, issuer: &TokenIssuer) {
        std::fs::write(file, TokenIssuer::key_set(&[issuer])).expect("writable");
    }

    #[tokio::test]
    async fn keys_are_fetched_for_an_unknown_one_with_pauses_and_after_failures() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("keys.json");
        let manual = ManualClock::shared();
        let clock: SharedClock = manual.clone();
        let tokens = Arc::new(Tokens::new(rules(), clock.clone()));
        let mut set = KeySet {
            listener: "SASL_SSL".to_owned(),
            place: Place::File(file.clone()),
            refresh: Duration::from_secs(3_600),
            tokens: Arc::downgrade(&tokens),
            fetched: Duration::ZERO,
            due: Duration::ZERO,
            ambiguous: Vec::new(),
        };
        let [first, second, third] = ["1", "2", "3"].map(TokenIssuer::new);
        publish(&file, &first);
        set.fetch_if_due(&clock).await;
        assert!(is_accepted(&tokens, &first));

        publish(&file, &second);
        assert!(!is_accepted(&tokens, &second), "it is fetched soon");
        manual.advance(PAUSE / 2);
        set.fetch_if_due(&clock).await;
        assert!(is_accepted(&tokens, &first), "but not at once");
        manual.advance(PAUSE / 2);
        set.fetch_if_due(&clock).await;
        assert!(is_accepted(&tokens, &second) && !is_accepted(&tokens, &first));

        std::fs::remove_file(&file).expect("there");
        manual.advance(PAUSE);
        set.fetch_if_due(&clock).await;
        assert!(is_accepted(&tokens, &second), "the former keys stay");
        publish(&file, &third);
        manual.advance(PAUSE);
        set.fetch_if_due(&clock).await;
        assert!(
            is_accepted(&tokens, &third),
            "a failure is soon tried again"
        );
    }

    #[tokio::test]
    async fn a_file_is_not_read_without_bound() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("keys.json");
        std::fs::write(&file, vec![b' '; KEY_SET_BYTES_MAX + 1]).expect("writable");
        let read = Place::File(file).read().await;
        assert!(matches!(read, Err(FetchError::TooLarge)), "{read:?}");
    }
}
