//! How a bucket is named in the configuration (`s3.data.buckets`).

use std::{fmt, path::PathBuf, str::FromStr};

use url::Url;

/// A bucket's address, with the credentials in it, if any. Neither [`fmt::Debug`] nor
/// [`fmt::Display`] shows a secret.
///
/// - `file:///folder` — a folder on this machine, created when missing;
/// - `s3://bucket?region=…&endpoint=…&pathStyle=true&accessKey=…&secretKey=…` — S3 or a store that
///   speaks its protocol; every parameter is optional, and what is missing comes from the
///   environment (`AWS_*`) or from the instance's role;
/// - `memory:///` — this process's memory, for tests.
///
/// Each may be preceded by a bucket number, `0@`, as users of Kafka on S3 write it. Only one bucket
/// is supported, so the number must be 0.
#[derive(Clone, PartialEq, Eq)]
pub enum BucketUri {
    /// A folder.
    File(PathBuf),
    /// A bucket of S3 or of a store that speaks its protocol.
    S3(S3Uri),
    /// This process's memory.
    Memory,
}

/// The address of an S3 bucket.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct S3Uri {
    /// The bucket's name.
    pub bucket: String,
    /// The region.
    pub region: Option<String>,
    /// The URL of the store where it is not AWS.
    pub endpoint: Option<String>,
    /// Whether the bucket's name stands in the path rather than in the host name.
    pub path_style: bool,
    /// The id of the access key.
    pub access_key: Option<String>,
    /// The access key's secret.
    pub secret_key: Option<String>,
}

/// Why a text is not a bucket's address. The text is for the caller and never quotes a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUri {
    /// Not a URI at all.
    #[error(
        "a bucket is written as file:///folder or s3://bucket?region=…; this is not a URI: {0}"
    )]
    Syntax(String),
    /// A scheme other than `file`, `s3`, `memory`.
    #[error("buckets are file:// or s3://, not {0}://")]
    Scheme(String),
    /// A bucket number other than 0.
    #[error("only one bucket is supported, numbered 0; this one is numbered {0}")]
    Number(String),
    /// `file://` without an absolute path.
    #[error("file:// needs an absolute path, as in file:///var/lib/millrace/objects")]
    RelativePath,
    /// `s3://` without a bucket, or with a path behind it.
    #[error("s3:// needs a bucket and no path, as in s3://my-bucket?region=eu-central-1")]
    BucketName,
    /// A parameter that is not known.
    #[error(
        "unknown bucket parameter {0:?}; known are region, endpoint, pathStyle, accessKey, secretKey"
    )]
    Parameter(String),
    /// A parameter's value cannot be used.
    #[error("bucket parameter {name:?} must be {expected}")]
    Value {
        /// The parameter.
        name: &'static str,
        /// What it must be.
        expected: &'static str,
    },
}

impl FromStr for BucketUri {
    type Err = InvalidUri;

    fn from_str(text: &str) -> Result<Self, InvalidUri> {
        let url = Url::parse(without_number(text.trim())?)
            .map_err(|error| InvalidUri::Syntax(error.to_string()))?;
        match url.scheme() {
            "file" if url.query().is_some() => Err(InvalidUri::RelativePath),
            "file" => {
                let path = url.to_file_path().map_err(|()| InvalidUri::RelativePath)?;
                Ok(Self::File(path))
            }
            "s3" => parse_s3(&url).map(Self::S3),
            "memory" => Ok(Self::Memory),
            scheme => Err(InvalidUri::Scheme(scheme.to_owned())),
        }
    }
}

fn without_number(text: &str) -> Result<&str, InvalidUri> {
    match text.split_once('@') {
        Some(("0", rest)) => Ok(rest),
        Some((number, _)) if !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()) => {
            Err(InvalidUri::Number(number.to_owned()))
        }
        _ => Ok(text),
    }
}

fn parse_s3(url: &Url) -> Result<S3Uri, InvalidUri> {
    let bucket = url.host_str().filter(|_| matches!(url.path(), "" | "/"));
    let mut s3 = S3Uri {
        bucket: bucket.ok_or(InvalidUri::BucketName)?.to_owned(),
        ..S3Uri::default()
    };
    for (name, value) in url.query_pairs() {
        let value = value.into_owned();
        match name.as_ref() {
            "region" => s3.region = Some(value),
            "endpoint" => s3.endpoint = Some(checked_endpoint(value)?),
            "accessKey" => s3.access_key = Some(value),
            "secretKey" => s3.secret_key = Some(value),
            "pathStyle" => {
                let expected = "true or false";
                s3.path_style = value.parse().map_err(|_| InvalidUri::Value {
                    name: "pathStyle",
                    expected,
                })?;
            }
            unknown => return Err(InvalidUri::Parameter(unknown.to_owned())),
        }
    }
    if s3.access_key.is_some() != s3.secret_key.is_some() {
        return Err(InvalidUri::Value {
            name: "accessKey",
            expected: "given with secretKey",
        });
    }
    Ok(s3)
}

fn checked_endpoint(endpoint: String) -> Result<String, InvalidUri> {
    match Url::parse(&endpoint) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(endpoint),
        _ => Err(InvalidUri::Value {
            name: "endpoint",
            expected: "an http:// or https:// URL",
        }),
    }
}

impl fmt::Display for BucketUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file://{}", path.display()),
            Self::S3(s3) => {
                write!(f, "s3://{}", s3.bucket)?;
                s3.endpoint
                    .iter()
                    .try_for_each(|endpoint| write!(f, " at {endpoint}"))
            }
            Self::Memory => f.write_str("memory:///"),
        }
    }
}

impl fmt::Debug for BucketUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BucketUri({self})")
    }
}

impl fmt::Debug for S3Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Uri")
            .field("bucket", &self.bucket)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<BucketUri, InvalidUri> {
        text.parse()
    }

    #[test]
    fn folders() {
        assert_eq!(parse("file:///a/b"), Ok(BucketUri::File("/a/b".into())));
        assert_eq!(
            parse("0@file:///a%20b/"),
            Ok(BucketUri::File("/a b/".into()))
        );
        assert_eq!(parse("file:///a?x=1"), Err(InvalidUri::RelativePath));
        assert_eq!(parse("1@file:///a"), Err(InvalidUri::Number("1".into())));
        assert!(matches!(parse("/a/b"), Err(InvalidUri::Syntax(_))));
    }

    #[test]
    fn s3_with_all_parameters() {
        let uri = "0@s3://b-1?region=eu&endpoint=http://127.0.0.1:9000&pathStyle=true\
                   &accessKey=id&secretKey=hush";
        let expected = S3Uri {
            bucket: "b-1".into(),
            region: Some("eu".into()),
            endpoint: Some("http://127.0.0.1:9000".into()),
            path_style: true,
            access_key: Some("id".into()),
            secret_key: Some("hush".into()),
        };
        let parsed = parse(uri).expect("legal");
        assert_eq!(parsed, BucketUri::S3(expected));
        assert_eq!(parsed.to_string(), "s3://b-1 at http://127.0.0.1:9000");
        assert!(!format!("{parsed:?}").contains("hush"));
    }

    #[test]
    fn s3_errors_name_the_parameter() {
        assert_eq!(parse("s3://b/path"), Err(InvalidUri::BucketName));
        assert_eq!(
            parse("s3://b?rigion=x"),
            Err(InvalidUri::Parameter("rigion".into()))
        );
        for (query, name) in [
            ("pathStyle=yes", "pathStyle"),
            ("endpoint=x", "endpoint"),
            ("accessKey=a", "accessKey"),
        ] {
            let error = parse(&format!("s3://b?{query}")).expect_err("illegal");
            assert!(
                matches!(error, InvalidUri::Value { name: n, .. } if n == name),
                "{error}"
            );
        }
        assert_eq!(parse("gs://b"), Err(InvalidUri::Scheme("gs".into())));
    }
}
