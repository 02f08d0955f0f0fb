//! Dials the gateway: TLS, credential, and the change from HTTP/1.1 to a connection whose server is the broker.

use std::{io, path::Path, time::Duration};

use axum::http::{HeaderValue, StatusCode, header};
use millrace_model::{Cause, FailureClass, NodeId};
use reqwest::{Certificate, Client, Response, Upgraded, redirect::Policy};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, join, split},
    time::timeout,
};

use crate::{
    admin::{BROKER, CLUSTER, Connection},
    config::ControlLinkConfig,
};

/// Until the gateway speaks HTTP/2: name resolution, TCP, TLS and answer.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// What is spoken on the link, and its version.
const PROTOCOL: HeaderValue = HeaderValue::from_static("millrace-link/1");
/// What a client of HTTP/2 sends first (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The largest credential: it is one header.
const CREDENTIAL_BYTES_MAX: u64 = 4 * 1024;
/// The largest file of roots: several times what Linux distributions ship.
const ROOTS_BYTES_MAX: u64 = 1 << 20;
/// What is shown of a gateway's reason, in characters.
const REASON_CHARS_MAX: usize = 200;

/// There is no link. The text is for the operator.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("{key} {path}: {problem}")]
    File {
        key: &'static str,
        path: String,
        problem: String,
    },
    #[error("{0}")]
    Http(Cause),
    #[error("the gateway has not completed the handshake within {HANDSHAKE_MAX:?}")]
    TimedOut,
    #[error("the gateway rejected the credential of control.link.credential.file: {0}")]
    Rejected(String),
    #[error("the gateway refused the link: {0}")]
    Refused(String),
    #[error("the gateway does not speak HTTP/2 on the link: {0}")]
    Protocol(io::Error),
}

impl From<reqwest::Error> for DialError {
    fn from(error: reqwest::Error) -> Self {
        Self::Http(Cause::of(FailureClass::Transient, error.without_url()))
    }
}

impl DialError {
    /// Whether only another credential can help.
    pub(super) fn is_rejected(&self) -> bool {
        matches!(self, Self::Rejected(_))
    }
}

/// Dials one gateway in the name of one broker.
pub(super) struct Dialer {
    pub(super) config: ControlLinkConfig,
    pub(super) node_id: NodeId,
    /// A random id of this start of the process: the gateway tells by it that a broker has restarted.
    pub(super) start_id: String,
}

impl Dialer {
    /// A connection on which the gateway speaks HTTP/2, as the client. Credential and roots are read each time,
    /// so new ones need no restart.
    pub(super) async fn dial(
        &self,
    ) -> Result<impl AsyncRead + AsyncWrite + Unpin + use<>, DialError> {
        let handshake = async {
            let upgraded = self.upgrade().await?;
            speaks_http2(upgraded).await.map_err(DialError::Protocol)
        };
        match timeout(HANDSHAKE_MAX, handshake).await {
            Ok(link) => link,
            Err(_) => Err(DialError::TimedOut),
        }
    }

    async fn upgrade(&self) -> Result<Upgraded, DialError> {
        let ControlLinkConfig {
            address,
            cluster_id,
            ..
        } = &self.config;
        let request = self
            .client()?
            .get(format!("https://{address}/v1/link"))
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, PROTOCOL)
            .header(header::AUTHORIZATION, self.credential()?)
            .header(CLUSTER, cluster_id)
            .header(BROKER, self.node_id.get())
            .header("millrace-broker-start", &self.start_id)
            .header("millrace-version", env!("CARGO_PKG_VERSION"));
        let response = request.send().await?;
        let is_link = response.headers().get(header::UPGRADE) == Some(&PROTOCOL);
        match response.status() {
            StatusCode::SWITCHING_PROTOCOLS if is_link => Ok(response.upgrade().await?),
            StatusCode::UNAUTHORIZED => Err(DialError::Rejected(reason(response).await)),
            _ => Err(DialError::Refused(reason(response).await)),
        }
    }

    /// A client for one attempt. It follows no redirects, which would show the credential to somebody else, and
    /// asks no proxy: it dials the address that is configured.
    fn client(&self) -> Result<Client, DialError> {
        // The default of the process: the object store's client uses the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder()
            .https_only(true)
            .http1_only()
            .no_proxy()
            .redirect(Policy::none())
            .tcp_nodelay(true);
        if let Some(path) = &self.config.ca_file {
            let failed = |problem| file_error("control.link.ca.file", path, problem);
            let pem = read(path, ROOTS_BYTES_MAX).map_err(failed)?;
            let roots =
                Certificate::from_pem_bundle(&pem).map_err(|error| failed(error.to_string()))?;
            if roots.is_empty() {
                return Err(failed(
                    "it has no certificate; write PEM roots into it".to_owned(),
                ));
            }
            client = client.tls_certs_only(roots);
        }
        Ok(client.build()?)
    }

    fn credential(&self) -> Result<HeaderValue, DialError> {
        let path = &self.config.credential_file;
        let failed = |problem| file_error("control.link.credential.file", path, problem);
        let text = read(path, CREDENTIAL_BYTES_MAX).map_err(failed)?;
        let text = String::from_utf8_lossy(&text);
        let unusable = || {
            failed(
                "it has no credential; write the one line that the control plane issued".to_owned(),
            )
        };
        let credential = Some(text.trim()).filter(|text| !text.is_empty());
        let credential = credential.ok_or_else(unusable)?;
        let mut value =
            HeaderValue::from_str(&format!("Bearer {credential}")).map_err(|_| unusable())?;
        value.set_sensitive(true);
        Ok(value)
    }
}

fn file_error(key: &'static str, path: &Path, problem: String) -> DialError {
    let path = path.display().to_string();
    DialError::File { key, path, problem }
}

fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, String> {
    let size = std::fs::metadata(path)
        .map_err(|error| error.to_string())?
        .len();
    if size > bytes_max {
        return Err(format!(
            "it has {size} bytes, more than {bytes_max}; name another file"
        ));
    }
    std::fs::read(path).map_err(|error| error.to_string())
}

/// Status and first line of an answer that opens no link. Its sender may be anybody, so it is cut and cleaned.
async fn reason(mut response: Response) -> String {
    let status = response.status();
    let chunk = response.chunk().await.ok().flatten().unwrap_or_default();
    let text = String::from_utf8_lossy(&chunk);
    let line = text.lines().next().unwrap_or_default();
    let line: String = line
        .chars()
        .filter(|one| !one.is_control())
        .take(REASON_CHARS_MAX)
        .collect();
    format!("{status} {line}").trim_end().to_owned()
}

/// Waits for the client's preface, so that a link counts as connected only where a client of HTTP/2 is there.
async fn speaks_http2(
    upgraded: Upgraded,
) -> io::Result<Connection<impl AsyncRead + AsyncWrite + Unpin>> {
    let (mut reader, writer) = split(upgraded);
    let mut preface = [0; PREFACE.len()];
    reader.read_exact(&mut preface).await?;
    if preface != *PREFACE {
        return Err(io::Error::other("it sends something else"));
    }
    Ok(Connection::new(join(PREFACE.chain(reader), writer)))
}
