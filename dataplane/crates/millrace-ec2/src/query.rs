//! EC2's Query API: forms that are posted, signed, and answered with XML.
//!
//! Credentials and signature are those of `object_store`, which reaches the bucket with them as well: AWS' own library for EC2
//! takes minutes to compile, for four requests.

use std::time::Duration;

use async_trait::async_trait;
use http::{Method, header::CONTENT_TYPE};
use object_store::{
    ClientOptions,
    aws::{AmazonS3Builder, AwsAuthorizer, AwsCredentialProvider},
    client::{HttpClient, HttpConnector as _, HttpRequest, HttpRequestBody, ReqwestConnector},
};
use url::form_urlencoded::Serializer;

use crate::{Instance, InstanceError, InstanceId, Volume, VolumeError, VolumeId, Volumes, answer};

const API_VERSION: &str = "2016-11-15";

/// EC2 answers in less than a second; a request that it has lost is better sent again.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);

/// Where EC2 and the metadata service are, where that is not where AWS has them.
#[derive(Debug, Clone, Default)]
pub struct Ec2Endpoints {
    /// `AWS_ENDPOINT_URL_EC2`
    pub ec2: Option<String>,
    /// `AWS_EC2_METADATA_SERVICE_ENDPOINT`
    pub metadata: Option<String>,
}

impl Ec2Endpoints {
    /// As the environment has them, under the names that all of AWS' tools use.
    #[must_use]
    pub fn from_environment() -> Self {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            ec2: set("AWS_ENDPOINT_URL_EC2"),
            metadata: set("AWS_EC2_METADATA_SERVICE_ENDPOINT"),
        }
    }
}

/// EC2 of this instance's region.
#[derive(Debug)]
pub struct Ec2 {
    client: HttpClient,
    credentials: AwsCredentialProvider,
    region: String,
    endpoint: String,
}

impl Ec2 {
    /// EC2 of the region that this program runs in, and the instance that it runs on. Credentials are found as those of the
    /// bucket are: in the environment, or those of the instance's role.
    ///
    /// # Errors
    /// The metadata service does not answer: this is no instance of EC2, or one that may not ask it.
    pub async fn of_this_instance(
        endpoints: &Ec2Endpoints,
    ) -> Result<(Self, Instance), InstanceError> {
        // Fails where the program has chosen a provider before; that one then serves.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let options = ClientOptions::new()
            .with_timeout(REQUEST_TIME_MAX)
            .with_connect_timeout(CONNECT_TIME_MAX)
            .with_allow_http(true);
        let client = ReqwestConnector::default()
            .connect(&options)
            .map_err(InstanceError::of)?;
        let instance = Instance::read(&client, endpoints.metadata.as_deref()).await?;
        // The library has no other way to its credentials; no bucket is ever asked for.
        let mut s3 = AmazonS3Builder::from_env()
            .with_bucket_name("none")
            .with_region(&instance.region)
            .with_client_options(options);
        if let Some(metadata) = &endpoints.metadata {
            s3 = s3.with_metadata_endpoint(metadata);
        }
        let s3 = s3.build().map_err(InstanceError::of)?;
        let credentials = s3.credentials().clone();
        let region = instance.region.clone();
        let endpoint = endpoints
            .ec2
            .clone()
            .unwrap_or_else(|| endpoint_of(&region));
        let ec2 = Self {
            client,
            credentials,
            region,
            endpoint,
        };
        Ok((ec2, instance))
    }

    async fn ask(
        &self,
        action: &'static str,
        parameters: &[(&str, &str)],
    ) -> Result<String, VolumeError> {
        let form = Serializer::new(String::new())
            .append_pair("Action", action)
            .append_pair("Version", API_VERSION)
            .extend_pairs(parameters)
            .finish();
        let unavailable =
            |error: &dyn std::error::Error| VolumeError::Unavailable(with_sources(error));
        let credential = self.credentials.get_credential().await;
        let credential = credential.map_err(|error| unavailable(&error))?;
        let mut request: HttpRequest = http::Request::builder()
            .method(Method::POST)
            .uri(format!("{}/", self.endpoint.trim_end_matches('/')))
            .header(
                CONTENT_TYPE,
                "application/x-www-form-urlencoded; charset=utf-8",
            )
            .body(HttpRequestBody::from(form))
            .map_err(|error| VolumeError::Refused {
                action,
                text: format!("{} is no endpoint: {error}", self.endpoint),
            })?;
        AwsAuthorizer::new(&credential, "ec2", &self.region)
            .try_authorize(&mut request, None)
            .map_err(|error| unavailable(&error))?;
        let response = self.client.execute(request).await;
        let response = response.map_err(|error| unavailable(&error))?;
        let status = response.status();
        let body = response.into_body().bytes().await;
        let body = body.map_err(|error| unavailable(&error))?;
        let text = String::from_utf8_lossy(&body).into_owned();
        if status.is_success() {
            Ok(text)
        } else {
            Err(answer::error(action, status.as_u16(), &text))
        }
    }
}

/// China's regions have a domain of their own.
fn endpoint_of(region: &str) -> String {
    let domain = if region.starts_with("cn-") {
        "amazonaws.com.cn"
    } else {
        "amazonaws.com"
    };
    format!("https://ec2.{region}.{domain}")
}

/// Clients' errors say what happened in their sources only.
pub(crate) fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

#[async_trait]
impl Volumes for Ec2 {
    async fn describe(&self, volume: &VolumeId) -> Result<Volume, VolumeError> {
        let id = volume.to_string();
        let text = self.ask("DescribeVolumes", &[("VolumeId.1", &id)]).await?;
        answer::volume(&text, &id)
    }

    async fn device_names(&self, instance: &InstanceId) -> Result<Vec<String>, VolumeError> {
        let filter = [
            ("Filter.1.Name", "attachment.instance-id"),
            ("Filter.1.Value.1", instance.0.as_str()),
        ];
        let text = self.ask("DescribeVolumes", &filter).await?;
        answer::device_names(&text, instance)
    }

    async fn detach(
        &self,
        volume: &VolumeId,
        instance: &InstanceId,
        force: bool,
    ) -> Result<(), VolumeError> {
        let id = volume.to_string();
        let force = if force { "true" } else { "false" };
        let parameters = [
            ("VolumeId", id.as_str()),
            ("InstanceId", &instance.0),
            ("Force", force),
        ];
        self.ask("DetachVolume", &parameters).await.map(drop)
    }

    async fn attach(
        &self,
        volume: &VolumeId,
        instance: &InstanceId,
        name: &str,
    ) -> Result<(), VolumeError> {
        let id = volume.to_string();
        let parameters = [
            ("VolumeId", id.as_str()),
            ("InstanceId", &instance.0),
            ("Device", name),
        ];
        self.ask("AttachVolume", &parameters).await.map(drop)
    }
}
