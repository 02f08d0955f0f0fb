//! `--command-config`: how Kafka's tools are told to encrypt and authenticate. The names are those of
//! Kafka's clients.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use millrace_client::{
    ClientConfig,
    security::{Plain, Scram, ScramMechanism, TlsConnector, TlsIdentity, TlsSettings},
    transport::Authenticate,
};
use millrace_properties::{
    JaasEntry, PLAIN_MODULE, PROPERTIES_BYTES_MAX, Properties, SCRAM_MODULE, pem_lines,
};

use crate::error::PerfError;

/// The largest PEM file, in bytes: the authorities of a whole operating system, several times.
const PEM_BYTES_MAX: u64 = 4 << 20;

/// What is understood of the families `security.`, `ssl.` and `sasl.`. Whatever else is set there would leave
/// the connection other than its user thinks.
const UNDERSTOOD: [&str; 14] = [
    "security.protocol",
    "sasl.mechanism",
    "sasl.jaas.config",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.certificates",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.endpoint.identification.algorithm",
    // Every version that they can name is offered anyway, and the broker chooses.
    "ssl.protocol",
    "ssl.enabled.protocols",
    "security.providers",
];

/// Sets connector and authentication, and the client's id, from a file.
pub(crate) fn apply(file: &Path, config: &mut ClientConfig) -> Result<(), PerfError> {
    let text = read(file, PROPERTIES_BYTES_MAX)?;
    let text = String::from_utf8(text)
        .map_err(|_| PerfError::usage(format!("{}: it is not UTF-8", file.display())))?;
    let wrong = |problem: String| PerfError::usage(format!("{}: {problem}", file.display()));
    let properties = Properties::parse(&text).map_err(|error| wrong(error.to_string()))?;
    let settings: BTreeMap<&str, &str> = properties
        .iter()
        .map(|(key, value)| (key, value.text.as_str()))
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let is_security = |key: &str| {
        ["security.", "ssl.", "sasl."]
            .iter()
            .any(|family| key.starts_with(family))
    };
    if let Some(key) = settings
        .keys()
        .find(|key| is_security(key) && !UNDERSTOOD.contains(key))
    {
        return Err(wrong(format!("{key} is not supported; remove it")));
    }
    let names_any_host = properties
        .get("ssl.endpoint.identification.algorithm")
        .is_some_and(|value| value.text.is_empty());
    Connecting {
        settings,
        names_any_host,
    }
    .apply(config)
    .map_err(|error| match error {
        PerfError::Usage(problem) => wrong(problem),
        other => other,
    })
}

/// What a file says.
struct Connecting<'a> {
    /// What is set to something.
    settings: BTreeMap<&'a str, &'a str>,
    /// `ssl.endpoint.identification.algorithm` is set to nothing.
    names_any_host: bool,
}

impl<'a> Connecting<'a> {
    fn get(&self, key: &str) -> Option<&'a str> {
        self.settings.get(key).copied()
    }

    fn apply(&self, config: &mut ClientConfig) -> Result<(), PerfError> {
        let protocol = self.get("security.protocol").unwrap_or("PLAINTEXT");
        let (tls, sasl) = match protocol.to_ascii_uppercase().as_str() {
            "PLAINTEXT" => (false, false),
            "SSL" => (true, false),
            "SASL_PLAINTEXT" => (false, true),
            "SASL_SSL" => (true, true),
            _ => {
                return Err(PerfError::usage(format!(
                    "security.protocol: {protocol:?} is not known; write PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
                )));
            }
        };
        if tls {
            let connector = TlsConnector::new(&self.tls()?);
            let connector = connector.map_err(|error| PerfError::usage(error.to_string()))?;
            config.connector = Arc::new(connector);
        }
        if sasl {
            config.authenticate = Some(self.sasl()?);
        }
        if let Some(client_id) = self.get("client.id") {
            client_id.clone_into(&mut config.client_id);
        }
        Ok(())
    }

    fn tls(&self) -> Result<TlsSettings, PerfError> {
        for key in ["ssl.truststore.type", "ssl.keystore.type"] {
            if let Some(kind) = self
                .get(key)
                .filter(|kind| !kind.eq_ignore_ascii_case("PEM"))
            {
                return Err(PerfError::usage(format!(
                    "{key}: {kind} is not supported; convert the file to PEM, and write PEM"
                )));
            }
        }
        let truststore = (
            self.get("ssl.truststore.location"),
            self.get("ssl.truststore.certificates"),
        );
        let roots = match truststore {
            (Some(file), None) => read(Path::new(file), PEM_BYTES_MAX)?,
            (None, Some(text)) => pem_lines(text).into_bytes(),
            _ => {
                return Err(PerfError::usage(
                    "set ssl.truststore.location to a PEM file with the certificates of the authorities to trust, \
                     or ssl.truststore.certificates to their PEM texts, but not both",
                ));
            }
        };
        let mut settings = TlsSettings::trusting(roots);
        settings.identity = self.identity()?;
        settings.verify_host_name = match self.get("ssl.endpoint.identification.algorithm") {
            None => !self.names_any_host,
            Some(https) if https.eq_ignore_ascii_case("https") => true,
            Some(other) => {
                return Err(PerfError::usage(format!(
                    "ssl.endpoint.identification.algorithm: {other:?} is not known; write https, or nothing to trust any host"
                )));
            }
        };
        Ok(settings)
    }

    fn identity(&self) -> Result<Option<TlsIdentity>, PerfError> {
        let keystore = (
            self.get("ssl.keystore.location"),
            self.get("ssl.keystore.certificate.chain"),
            self.get("ssl.keystore.key"),
        );
        match keystore {
            (None, None, None) => Ok(None),
            (Some(file), None, None) => {
                let both = read(Path::new(file), PEM_BYTES_MAX)?;
                Ok(Some(TlsIdentity {
                    certificate_chain: both.clone(),
                    private_key: both,
                }))
            }
            (None, Some(chain), Some(key)) => Ok(Some(TlsIdentity {
                certificate_chain: pem_lines(chain).into_bytes(),
                private_key: pem_lines(key).into_bytes(),
            })),
            _ => Err(PerfError::usage(
                "set ssl.keystore.location to a PEM file with the client's certificate and its private key, \
                 or ssl.keystore.certificate.chain and ssl.keystore.key to PEM texts, but not all",
            )),
        }
    }

    fn sasl(&self) -> Result<Arc<dyn Authenticate>, PerfError> {
        let mechanism = self.get("sasl.mechanism").unwrap_or_default();
        let (scram, module) = match mechanism {
            "PLAIN" => (None, PLAIN_MODULE),
            "SCRAM-SHA-256" => (Some(ScramMechanism::Sha256), SCRAM_MODULE),
            "SCRAM-SHA-512" => (Some(ScramMechanism::Sha512), SCRAM_MODULE),
            other => {
                return Err(PerfError::usage(format!(
                    "sasl.mechanism: {other:?} is not supported; write SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN"
                )));
            }
        };
        let wrong = |problem: String| {
            PerfError::usage(format!(
                "sasl.jaas.config: {problem}; write {module} required username=\"…\" password=\"…\";"
            ))
        };
        let jaas = self.get("sasl.jaas.config");
        let jaas = jaas.ok_or_else(|| wrong(format!("{mechanism} needs it")))?;
        let entry: JaasEntry = jaas
            .parse()
            .map_err(|error: millrace_properties::InvalidJaas| wrong(error.to_string()))?;
        if entry.module != module {
            return Err(wrong(format!(
                "{} is not the module of {mechanism}",
                entry.module
            )));
        }
        let option = |name: &str| {
            let value = entry.options.get(name);
            value.ok_or_else(|| wrong(format!("it has no {name}")))
        };
        let (user, password) = (option("username")?, option("password")?);
        // As Kafka's clients read it.
        let token = entry.options.get("tokenauth");
        let is_token = token.is_some_and(|value| value.eq_ignore_ascii_case("true"));
        Ok(match (scram, is_token) {
            (None, false) => Arc::new(Plain::new(user, password)),
            (None, true) => {
                return Err(PerfError::usage(
                    "sasl.jaas.config: delegation tokens need SCRAM; write SCRAM-SHA-512 or SCRAM-SHA-256 in sasl.mechanism",
                ));
            }
            (Some(mechanism), false) => Arc::new(Scram::new(mechanism, user, password)),
            (Some(mechanism), true) => Arc::new(Scram::delegation_token(mechanism, user, password)),
        })
    }
}

fn read(file: &Path, bytes_max: u64) -> Result<Vec<u8>, PerfError> {
    let read = || {
        if std::fs::metadata(file)?.len() > bytes_max {
            return Err(std::io::Error::other(
                "it is too large; is it the right file?",
            ));
        }
        std::fs::read(file)
    };
    read().map_err(|error| PerfError::usage(format!("{}: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(text: &str) -> Result<ClientConfig, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("client.properties");
        std::fs::write(&file, text).expect("writable");
        let mut config = ClientConfig::new("localhost:9092").expect("an address");
        apply(&file, &mut config).map_err(|error| error.to_string())?;
        Ok(config)
    }

    #[test]
    fn a_protocol_decides_what_is_used() {
        let jaas =
            format!(r#"sasl.jaas.config={SCRAM_MODULE} required username="a" password="hunter2";"#);
        let plain = applied("acks=all\nclient.id=mine").expect("legal");
        assert!(plain.authenticate.is_none());
        assert_eq!(plain.client_id, "mine");
        let text =
            format!("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n{jaas}");
        let scram = applied(&text).expect("legal");
        let shown = format!("{scram:?}");
        assert!(
            shown.contains("Sha512") && !shown.contains("hunter2"),
            "{shown}"
        );
        let token = text.replace(" password", " tokenauth=\"true\" password");
        let shown = format!("{:?}", applied(&token).expect("legal"));
        assert!(shown.contains("is_token: true"), "{shown}");
        // What the protocol does not use is not looked at.
        assert!(applied(&jaas).expect("legal").authenticate.is_none());
    }

    #[test]
    fn what_is_missing_or_not_supported_is_named() {
        let sasl = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=";
        for (text, part) in [
            ("security.protocol=TLS", "SASL_SSL"),
            ("security.protocol=SSL", "ssl.truststore.location"),
            (
                "security.protocol=SSL\nssl.truststore.location=/nowhere/ca.pem",
                "/nowhere/ca.pem",
            ),
            ("security.protocol=SSL\nssl.truststore.type=JKS", "JKS"),
            (
                "security.protocol=SSL\nssl.truststore.certificates=x",
                "at least one certificate",
            ),
            (
                "ssl.truststore.password=hunter2",
                "ssl.truststore.password is not supported",
            ),
            (&format!("{sasl}GSSAPI"), "GSSAPI"),
            (&format!("{sasl}PLAIN"), "sasl.jaas.config"),
            (
                &format!("{sasl}PLAIN\nsasl.jaas.config={SCRAM_MODULE} required;"),
                "not the module",
            ),
            (
                &format!("{sasl}PLAIN\nsasl.jaas.config={PLAIN_MODULE} required username=a;"),
                "no password",
            ),
            (
                &format!(
                    "{sasl}PLAIN\nsasl.jaas.config={PLAIN_MODULE} required username=a password=b tokenauth=true;"
                ),
                "delegation tokens need SCRAM",
            ),
        ] {
            let error = applied(text).expect_err(text);
            assert!(
                error.contains(part) && error.contains("client.properties"),
                "{text}: {error}"
            );
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
