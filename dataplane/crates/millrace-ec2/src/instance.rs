//! This instance, as its metadata service tells it (IMDSv2: a session first, which no forwarded request can begin).

use http::{Method, StatusCode};
use object_store::client::{HttpClient, HttpRequest, HttpRequestBody};
use serde::Deserialize;

use crate::{InstanceId, query::with_sources};

const ENDPOINT: &str = "http://169.254.169.254";
/// The session is used at once.
const SESSION_SECONDS: &str = "60";

/// An instance of EC2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Its id.
    pub id: InstanceId,
    /// Its region, `eu-central-1`.
    pub region: String,
    /// The name of its availability zone, `eu-central-1a`.
    pub zone: String,
    /// The id of the zone, `euc1-az2`, which is the same in every account.
    pub zone_id: String,
}

/// The metadata service does not say which instance this is.
#[derive(Debug, thiserror::Error)]
#[error(
    "the instance metadata service does not answer: {0}; is this an EC2 instance, and does it allow IMDSv2 from here (in a \
     container, with a hop limit of 2)?"
)]
pub struct InstanceError(String);

impl InstanceError {
    pub(crate) fn of(error: impl std::error::Error) -> Self {
        Self(with_sources(&error))
    }
}

/// Of the instance's identity document.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    instance_id: String,
    region: String,
    availability_zone: String,
}

impl Instance {
    /// Whether this zone, by its name or its id, is the instance's.
    #[must_use]
    pub fn is_in(&self, zone: &str) -> bool {
        zone == self.zone || zone == self.zone_id
    }

    pub(crate) async fn read(
        client: &HttpClient,
        endpoint: Option<&str>,
    ) -> Result<Self, InstanceError> {
        let endpoint = endpoint.unwrap_or(ENDPOINT).trim_end_matches('/');
        let lifetime = ("x-aws-ec2-metadata-token-ttl-seconds", SESSION_SECONDS);
        let session = ask(
            client,
            Method::PUT,
            format!("{endpoint}/latest/api/token"),
            lifetime,
        );
        let session = session.await?;
        let header = ("x-aws-ec2-metadata-token", session.as_str());
        let path = format!("{endpoint}/latest/dynamic/instance-identity/document");
        let identity = ask(client, Method::GET, path, header).await?;
        let identity: Identity = serde_json::from_str(&identity).map_err(InstanceError::of)?;
        let path = format!("{endpoint}/latest/meta-data/placement/availability-zone-id");
        Ok(Self {
            id: InstanceId(identity.instance_id),
            region: identity.region,
            zone: identity.availability_zone,
            zone_id: ask(client, Method::GET, path, header).await?,
        })
    }
}

async fn ask(
    client: &HttpClient,
    method: Method,
    uri: String,
    (name, value): (&str, &str),
) -> Result<String, InstanceError> {
    let request: HttpRequest = http::Request::builder()
        .method(method)
        .uri(&uri)
        .header(name, value)
        .body(HttpRequestBody::empty())
        .map_err(InstanceError::of)?;
    let response = client.execute(request).await.map_err(InstanceError::of)?;
    let status = response.status();
    let body = response
        .into_body()
        .bytes()
        .await
        .map_err(InstanceError::of)?;
    if status == StatusCode::OK {
        Ok(String::from_utf8_lossy(&body).trim().to_owned())
    } else {
        Err(InstanceError(format!("{uri} answers with {status}")))
    }
}
