//! What a request asks for: its parameters, read strictly. An unknown or repeated one is an error,
//! because a misspelt filter would otherwise answer something else.

use std::{collections::BTreeMap, fmt::Display, ops::RangeInclusive, str::FromStr, time::Duration};

use memchr::memmem::Finder;
use millrace_time::rfc3339;

use crate::{
    cursor::Cursor,
    encoding::{Encoding, Showing},
    error::RecordsError,
    filter::Filter,
    limits::{
        FILTER_BYTES_MAX, LIMIT, LIMIT_DEFAULT, PAGE_BYTES, PAGE_BYTES_DEFAULT, PARTITIONS_MAX,
        SHOWN_BYTES, SHOWN_BYTES_DEFAULT, WAIT_MS, WAIT_MS_DEFAULT,
    },
};

const PARTITION: &str = "partition";
const STARTS: [&str; 5] = ["newest", "offset", "time", "from", "cursor"];
const CONTENT: [&str; 5] = ["key", "header", "text", "encoding", "value_bytes_max"];
const BOUNDS: [&str; 3] = ["limit", "max_bytes", "max_wait_ms"];

/// Where to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Start {
    /// So many of the newest.
    Newest(usize),
    /// At an offset of the one partition.
    Offset(i64),
    /// At the first record that is not older, in milliseconds since 1970.
    Time(i64),
    Earliest,
    Latest,
    Cursor(Cursor),
}

/// Which records of a topic, and how they are shown.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    pub(crate) start: Start,
    /// All where none are named.
    pub(crate) partitions: Option<Vec<i32>>,
    pub(crate) filter: Filter,
    pub(crate) showing: Showing,
}

/// The parameters of a read.
#[derive(Debug, Clone)]
pub struct ReadQuery {
    pub(crate) selection: Selection,
    pub(crate) limit: usize,
    pub(crate) page_bytes: usize,
    pub(crate) wait: Duration,
}

/// The parameters of a stream.
#[derive(Debug, Clone)]
pub struct StreamQuery {
    pub(crate) selection: Selection,
}

impl ReadQuery {
    /// Reads the parameters of a read.
    ///
    /// # Errors
    /// One of them is unknown, repeated or not what it may be.
    pub fn parse(pairs: Vec<(String, String)>) -> Result<Self, RecordsError> {
        let known: Vec<_> = [PARTITION]
            .into_iter()
            .chain(STARTS)
            .chain(CONTENT)
            .chain(BOUNDS)
            .collect();
        let parameters = Parameters::new(pairs, &known)?;
        let limit = parameters.within("limit", LIMIT, LIMIT_DEFAULT)?;
        let page_bytes = parameters.within("max_bytes", PAGE_BYTES, PAGE_BYTES_DEFAULT)?;
        let wait = parameters.within("max_wait_ms", WAIT_MS, WAIT_MS_DEFAULT)?;
        Ok(Self {
            selection: parameters.selection(None)?,
            limit,
            page_bytes,
            wait: Duration::from_millis(wait),
        })
    }
}

impl StreamQuery {
    /// Reads the parameters of a stream. `last_event_id` is the id of the last event that the
    /// caller has; it replaces where the parameters start.
    ///
    /// # Errors
    /// As for a read.
    pub fn parse(
        pairs: Vec<(String, String)>,
        last_event_id: Option<&str>,
    ) -> Result<Self, RecordsError> {
        let known: Vec<_> = [PARTITION]
            .into_iter()
            .chain(STARTS)
            .chain(CONTENT)
            .collect();
        let parameters = Parameters::new(pairs, &known)?;
        Ok(Self {
            selection: parameters.selection(last_event_id)?,
        })
    }
}

struct Parameters(BTreeMap<String, String>);

impl Parameters {
    fn new(pairs: Vec<(String, String)>, known: &[&str]) -> Result<Self, RecordsError> {
        let mut parameters = BTreeMap::new();
        for (name, value) in pairs {
            if !known.contains(&name.as_str()) {
                let known = known.join(", ");
                return Err(RecordsError::invalid(format!(
                    "{name:?} is no parameter; the parameters are {known}"
                )));
            }
            if value.len() > FILTER_BYTES_MAX && name != "cursor" {
                return Err(RecordsError::invalid(format!(
                    "{name} has more than {FILTER_BYTES_MAX} bytes"
                )));
            }
            if parameters.contains_key(&name) {
                return Err(RecordsError::invalid(format!("{name} is given twice")));
            }
            parameters.insert(name, value);
        }
        Ok(Self(parameters))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn within<T>(&self, name: &str, range: RangeInclusive<T>, default: T) -> Result<T, RecordsError>
    where
        T: FromStr + PartialOrd + Display,
    {
        let Some(text) = self.get(name) else {
            return Ok(default);
        };
        let value = text.parse().ok().filter(|value| range.contains(value));
        value.ok_or_else(|| {
            RecordsError::invalid(format!(
                "{name} must be a number from {} to {}",
                range.start(),
                range.end()
            ))
        })
    }

    fn selection(&self, last_event_id: Option<&str>) -> Result<Selection, RecordsError> {
        let partitions = self.get(PARTITION).map(partitions).transpose()?;
        let start = match last_event_id {
            Some(id) => cursor("Last-Event-ID", id)?,
            None => self.start(partitions.as_deref())?,
        };
        let text = |name| {
            let text = self.get(name).filter(|text| !text.is_empty());
            text.map(|text| text.as_bytes().to_vec())
        };
        let filter = Filter {
            // An empty key is a key.
            key: self.get("key").map(|key| key.as_bytes().to_vec()),
            header: self.get("header").map(header).transpose()?,
            text: text("text").map(|text| Finder::new(&text).into_owned()),
        };
        let showing = Showing {
            encoding: self.encoding()?,
            bytes_max: self.within("value_bytes_max", SHOWN_BYTES, SHOWN_BYTES_DEFAULT)?,
        };
        Ok(Selection {
            start,
            partitions,
            filter,
            showing,
        })
    }

    fn start(&self, partitions: Option<&[i32]>) -> Result<Start, RecordsError> {
        let mut given = STARTS
            .iter()
            .filter_map(|name| Some((*name, self.get(name)?)));
        let Some((name, value)) = given.next() else {
            return Ok(Start::Newest(LIMIT_DEFAULT));
        };
        if given.next().is_some() {
            let starts = STARTS.join(", ");
            return Err(RecordsError::invalid(format!("give only one of {starts}")));
        }
        match name {
            "newest" => self.within(name, LIMIT, LIMIT_DEFAULT).map(Start::Newest),
            "offset" if partitions.is_none_or(|partitions| partitions.len() != 1) => {
                let text = "offset needs exactly one partition; add partition=…";
                Err(RecordsError::invalid(text))
            }
            "offset" => self.within(name, 0..=i64::MAX, 0).map(Start::Offset),
            "time" => {
                let time = value.parse().ok().filter(|time: &i64| *time >= 0);
                let time = time.or_else(|| rfc3339::parse(value).map(|time| time.max(0)));
                time.map(Start::Time).ok_or_else(|| {
                    RecordsError::invalid(
                        "time must be milliseconds since 1970 or as in 2026-11-22T13:00:00Z",
                    )
                })
            }
            "from" => match value {
                "earliest" => Ok(Start::Earliest),
                "latest" => Ok(Start::Latest),
                _ => Err(RecordsError::invalid("from must be earliest or latest")),
            },
            _ => cursor("cursor", value),
        }
    }

    fn encoding(&self) -> Result<Encoding, RecordsError> {
        match self.get("encoding") {
            None | Some("auto") => Ok(Encoding::Auto),
            Some("base64") => Ok(Encoding::Base64),
            Some("hex") => Ok(Encoding::Hex),
            Some(_) => Err(RecordsError::invalid(
                "encoding must be auto, base64 or hex",
            )),
        }
    }
}

fn cursor(name: &str, text: &str) -> Result<Start, RecordsError> {
    let cursor = Cursor::parse(text).map(Start::Cursor);
    cursor.ok_or_else(|| RecordsError::invalid(format!("{name} is not a cursor of this API")))
}

fn partitions(text: &str) -> Result<Vec<i32>, RecordsError> {
    let number = |text: &str| text.parse().ok().filter(|number: &i32| *number >= 0);
    let numbers: Option<Vec<_>> = text.split(',').map(number).collect();
    let mut numbers = numbers
        .ok_or_else(|| RecordsError::invalid("partition must be numbers with commas between"))?;
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.len() > PARTITIONS_MAX {
        return Err(too_many_partitions());
    }
    Ok(numbers)
}

pub(crate) fn too_many_partitions() -> RecordsError {
    RecordsError::invalid(format!(
        "one request reads at most {PARTITIONS_MAX} partitions; name some with partition=…"
    ))
}

fn header(text: &str) -> Result<(Vec<u8>, Option<Vec<u8>>), RecordsError> {
    let bytes = |text: &str| text.as_bytes().to_vec();
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(bytes(value))),
        None => (text, None),
    };
    if name.is_empty() {
        return Err(RecordsError::invalid("header must be name or name=value"));
    }
    Ok((bytes(name), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ReadQuery, RecordsError> {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').expect("a pair");
            (name.to_owned(), value.to_owned())
        };
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        ReadQuery::parse(pairs.map(pair).collect())
    }

    #[test]
    fn starts_are_read() {
        let id = "0".repeat(32);
        for (text, expected) in [
            ("", Start::Newest(50)),
            ("newest=3", Start::Newest(3)),
            (
                "offset=9007199254740993&partition=0",
                Start::Offset(9_007_199_254_740_993),
            ),
            ("time=1700000000000", Start::Time(1_700_000_000_000)),
            ("time=1970-01-01T00:00:01Z", Start::Time(1_000)),
            ("from=earliest", Start::Earliest),
            ("from=latest", Start::Latest),
        ] {
            assert_eq!(
                read(text).expect("legal").selection.start,
                expected,
                "{text}"
            );
        }
        let cursor = read(&format!("cursor=1_{id}_a_0-7")).expect("legal");
        assert!(matches!(cursor.selection.start, Start::Cursor(_)));
    }

    #[test]
    fn every_wrong_parameter_is_named() {
        for (text, expected) in [
            ("limit=0", "limit must be a number from 1 to 1000"),
            ("limit=1001", "limit"),
            ("max_bytes=8388609", "max_bytes"),
            ("max_wait_ms=10001", "max_wait_ms"),
            ("value_bytes_max=-1", "value_bytes_max"),
            ("newest=0", "newest"),
            ("offset=1", "exactly one partition"),
            ("offset=1&partition=0,1", "exactly one partition"),
            ("offset=x&partition=0", "offset must be a number"),
            ("offset=1&partition=0&from=latest", "only one of"),
            ("time=yesterday", "time must be"),
            ("from=start", "from must be"),
            ("cursor=abc", "cursor is not a cursor"),
            ("partition=-1", "partition must be"),
            ("partition=0,,1", "partition must be"),
            ("encoding=utf8", "encoding must be"),
            ("header==x", "header must be"),
            ("texts=x", "\"texts\" is no parameter"),
            ("text=x&text=y", "text is given twice"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.message.contains(expected), "{text}: {error}");
            assert_eq!(error.code, "INVALID_REQUEST");
        }
        let pairs = vec![("limit".to_owned(), "1".to_owned())];
        assert!(
            StreamQuery::parse(pairs, None).is_err(),
            "a stream has none"
        );
    }
}
