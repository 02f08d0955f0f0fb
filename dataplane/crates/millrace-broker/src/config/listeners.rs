//! `listeners`, `advertised.listeners` and `admin.listener`.

use std::{collections::BTreeMap, fmt, net::IpAddr, str::FromStr};

/// An address as it is written: `host:port`, `[v6]:port` or `:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// A name or an address; empty means every interface.
    pub host: String,
    /// The port; 0 takes a free one.
    pub port: u16,
}

/// A named listener: `NAME://host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// In capitals, as Kafka has it.
    pub name: String,
    /// Where it listens, or what it tells clients.
    pub at: HostPort,
}

/// Several, separated by commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoints(pub(super) Vec<Endpoint>);

/// A text is not an address. The text is for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidListener {
    /// No `://`.
    #[error("{0:?} has no listener name before \"://\"")]
    NoName(String),
    /// No port, or not a number below 65536.
    #[error("{0:?} has no port from 0 to 65535 behind the last colon")]
    Port(String),
    /// A part of the host is not closed or empty where it must not be.
    #[error("{0:?} has a host that cannot be read; an IPv6 address stands in brackets")]
    Host(String),
    /// Two listeners of one name.
    #[error("the listener name {0} is used twice")]
    Twice(String),
    /// The list has nothing in it.
    #[error("there is no listener in the list")]
    Empty,
}

impl HostPort {
    /// Whether clients elsewhere could not use this as an address.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        matches!(self.host.as_str(), "" | "0.0.0.0" | "::")
    }

    /// Whether only programs on this machine can use this as an address.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        self.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

impl FromStr for HostPort {
    type Err = InvalidListener;

    fn from_str(text: &str) -> Result<Self, InvalidListener> {
        let no_port = || InvalidListener::Port(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(no_port)?;
        let port = port.parse().map_err(|_| no_port())?;
        let host = match host.strip_prefix('[') {
            Some(v6) => v6.strip_suffix(']').filter(|v6| v6.contains(':')),
            None => Some(host).filter(|host| !host.contains([':', '/', ' '])),
        };
        let host = host.ok_or_else(|| InvalidListener::Host(text.to_owned()))?;
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.name, self.at)
    }
}

impl FromStr for Endpoints {
    type Err = InvalidListener;

    fn from_str(text: &str) -> Result<Self, InvalidListener> {
        let mut by_name = BTreeMap::new();
        let mut endpoints = Vec::new();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let (name, at) = part
                .split_once("://")
                .filter(|(name, _)| !name.is_empty())
                .ok_or_else(|| InvalidListener::NoName(part.to_owned()))?;
            let name = name.to_ascii_uppercase();
            if by_name.insert(name.clone(), ()).is_some() {
                return Err(InvalidListener::Twice(name));
            }
            endpoints.push(Endpoint {
                name,
                at: at.parse()?,
            });
        }
        if endpoints.is_empty() {
            Err(InvalidListener::Empty)
        } else {
            Ok(Self(endpoints))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let parse = |text: &str| text.parse::<HostPort>();
        let host = |host: &str, port| {
            Ok(HostPort {
                host: host.into(),
                port,
            })
        };
        assert_eq!(parse("127.0.0.1:9092"), host("127.0.0.1", 9092));
        assert_eq!(parse(":0"), host("", 0));
        assert_eq!(parse("[::1]:1"), host("::1", 1));
        assert_eq!(parse("[::1]:1").expect("legal").to_string(), "[::1]:1");
        for bad in [
            "host",
            "host:",
            "host:65536",
            "::1:9092",
            "[::1:9",
            "http://a:1",
            "a b:1",
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        assert!(parse(":9092").expect("legal").is_wildcard());
    }

    #[test]
    fn lists() {
        let Endpoints(list) = "PLAINTEXT://a:1, internal://b:2".parse().expect("legal");
        assert_eq!(
            (list[0].name.as_str(), list[1].name.as_str()),
            ("PLAINTEXT", "INTERNAL")
        );
        let error = |text: &str| text.parse::<Endpoints>().expect_err("illegal");
        assert_eq!(error(" , "), InvalidListener::Empty);
        assert_eq!(error("A://a:1,a://b:2"), InvalidListener::Twice("A".into()));
        assert_eq!(error("a:1"), InvalidListener::NoName("a:1".into()));
    }
}
