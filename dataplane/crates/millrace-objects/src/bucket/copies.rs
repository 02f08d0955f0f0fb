//! S3's UploadPartCopy, for which `object_store` has no call: it signs the request, and a client of its
//! own kind sends it.

use std::{ops::Range, time::Duration};

use bytes::Bytes;
use object_store::{
    ClientOptions, Error, HeaderValue,
    aws::AmazonS3,
    client::{HttpClient, HttpConnector, HttpRequest, HttpRequestBody, ReqwestConnector},
    path::Path,
    signer::{HeaderName, Method, SignedUrlOptions, Signer},
};

use super::{BucketError, PartSlot, PartTag, UploadId};
use crate::ObjectKey;

/// How long the signature holds: longer than the longest try, whose deadline stands outside.
const SIGNATURE_VALID: Duration = Duration::from_secs(3_600);

const SOURCE: HeaderName = HeaderName::from_static("x-amz-copy-source");
const RANGE: HeaderName = HeaderName::from_static("x-amz-copy-source-range");

/// Asks S3 to copy ranges of objects into parts.
#[derive(Debug)]
pub(super) struct Copies {
    bucket: String,
    client: HttpClient,
}

impl Copies {
    pub(super) fn new(bucket: &str, options: &ClientOptions) -> Result<Self, Error> {
        Ok(Self {
            bucket: bucket.to_owned(),
            client: ReqwestConnector::default().connect(options)?,
        })
    }

    pub(super) async fn copy_part(
        &self,
        s3: &AmazonS3,
        (key, upload, slot): (&ObjectKey, &UploadId, PartSlot),
        source: &ObjectKey,
        range: Range<u64>,
    ) -> Result<PartTag, BucketError> {
        // Keys have letters, digits, `-`, `_` and `/` only, so there is nothing to escape.
        let source = format!("{}/{source}", self.bucket);
        let range = format!("bytes={}-{}", range.start, range.end.saturating_sub(1));
        let headers = [(SOURCE, source), (RANGE, range)];
        let mut options = SignedUrlOptions::new().with_query([
            ("partNumber", (slot.number + 1).to_string()),
            ("uploadId", upload.as_str().to_owned()),
        ]);
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        for (name, value) in headers {
            let value = HeaderValue::try_from(value).map_err(failed)?;
            request.headers_mut().insert(name.clone(), value.clone());
            options = options.with_signed_header(name, value);
        }
        let path = Path::from(key.as_str());
        let url = s3.signed_url_opts(Method::PUT, &path, SIGNATURE_VALID, &options);
        let url = url.await.map_err(failed)?;
        *request.method_mut() = Method::PUT;
        *request.uri_mut() = url.as_str().parse().map_err(failed)?;
        let response = self.client.execute(request).await.map_err(failed)?;
        let status = response.status().as_u16();
        let answer = response.into_body().bytes().await.map_err(failed)?;
        settle(status, &answer)
    }
}

fn failed(error: impl Into<super::Source>) -> BucketError {
    BucketError::Failed(error.into())
}

/// What S3 answered. A copy that fails half-way is answered with 200 and an error in the body.
fn settle(status: u16, answer: &Bytes) -> Result<PartTag, BucketError> {
    let answer = String::from_utf8_lossy(answer);
    if status == 200
        && let Some(tag) = element(&answer, "ETag")
    {
        let Some(checksum) = element(&answer, "ChecksumCRC64NVME") else {
            return Ok(PartTag::new(unescaped_quotes(tag)));
        };
        // How `object_store` keeps a part that has a checksum.
        return Ok(PartTag::new(format!(
            "<PartMetadata><e_tag>{tag}</e_tag><checksum_crc64nvme>{checksum}</checksum_crc64nvme>\
             </PartMetadata>"
        )));
    }
    let code = element(&answer, "Code").unwrap_or("an answer without a code");
    let source = || format!("UploadPartCopy was answered with {status}, {code}").into();
    Err(match (status, code) {
        (_, "NoSuchKey" | "NoSuchUpload") | (404, _) => BucketError::NotFound,
        (_, "NotImplemented") | (405 | 501, _) => BucketError::Unsupported(source()),
        (403, _) => BucketError::Denied(source()),
        _ => BucketError::Failed(source()),
    })
}

/// A tag is text in quotes, which stores escape in one way or another.
fn unescaped_quotes(tag: &str) -> String {
    let escapes = ["&quot;", "&#34;", "&#x22;"];
    let unescape = |tag: String, escape: &str| tag.replace(escape, "\"");
    escapes.into_iter().fold(tag.to_owned(), unescape)
}

/// The text of the first element of that name.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, behind) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = behind.split_once(&format!("</{name}>"))?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(status: u16, answer: &'static str) -> Result<PartTag, BucketError> {
        settle(status, &Bytes::from_static(answer.as_bytes()))
    }

    #[test]
    fn a_part_is_known_by_its_tag_and_its_checksum() {
        for plain in [
            "<CopyPartResult><LastModified>x</LastModified><ETag>&quot;ab&quot;</ETag></CopyPartResult>",
            "<CopyPartResult><ETag>&#34;ab&#34;</ETag></CopyPartResult>",
            "<CopyPartResult><ETag>\"ab\"</ETag></CopyPartResult>",
        ] {
            assert_eq!(settled(200, plain).expect("copied").as_str(), "\"ab\"");
        }
        let summed = "<CopyPartResult><ETag>&quot;ab&quot;</ETag>\
             <ChecksumCRC64NVME>Zz==</ChecksumCRC64NVME></CopyPartResult>";
        assert_eq!(
            settled(200, summed).expect("copied").as_str(),
            "<PartMetadata><e_tag>&quot;ab&quot;</e_tag>\
             <checksum_crc64nvme>Zz==</checksum_crc64nvme></PartMetadata>"
        );
    }

    #[test]
    fn a_failure_is_seen_whatever_the_status_says() {
        let internal = "<Error><Code>InternalError</Code></Error>";
        assert!(matches!(
            settled(200, internal),
            Err(BucketError::Failed(_))
        ));
        assert!(matches!(settled(200, ""), Err(BucketError::Failed(_))));
        assert!(matches!(settled(503, ""), Err(BucketError::Failed(_))));
        assert!(matches!(settled(403, ""), Err(BucketError::Denied(_))));
        let gone = "<Error><Code>NoSuchKey</Code></Error>";
        assert!(matches!(settled(404, gone), Err(BucketError::NotFound)));
        let unknown = "<Error><Code>NotImplemented</Code></Error>";
        assert!(matches!(
            settled(501, unknown),
            Err(BucketError::Unsupported(_))
        ));
    }
}
