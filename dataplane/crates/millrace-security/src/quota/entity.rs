//! Quota entities and the kinds of quotas that they have.

use std::net::IpAddr;

/// The longest name in a quota, in bytes: as long as a principal may be. Of longer client ids only so
/// many bytes count, so that they cost no more memory.
pub const ENTITY_NAME_BYTES_MAX: usize = 512;

/// What a quota limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QuotaKind {
    /// Bytes of Produce requests per second.
    ProducerByteRate,
    /// Bytes of fetched records per second.
    ConsumerByteRate,
    /// Time that the broker works on requests, in percent of one processor (KIP-124).
    RequestPercentage,
    /// Partitions created and deleted per second (KIP-599).
    ControllerMutationRate,
    /// Connections opened per second (KIP-612).
    ConnectionCreationRate,
}

impl QuotaKind {
    /// Every kind; the place in this list is its number.
    pub const ALL: [Self; 5] = [
        Self::ProducerByteRate,
        Self::ConsumerByteRate,
        Self::RequestPercentage,
        Self::ControllerMutationRate,
        Self::ConnectionCreationRate,
    ];

    /// Kafka's name of it.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::ProducerByteRate => "producer_byte_rate",
            Self::ConsumerByteRate => "consumer_byte_rate",
            Self::RequestPercentage => "request_percentage",
            Self::ControllerMutationRate => "controller_mutation_rate",
            Self::ConnectionCreationRate => "connection_creation_rate",
        }
    }

    /// The kind that Kafka calls `key`.
    #[must_use]
    pub fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.key() == key)
    }

    /// Checks a value that is to be set.
    ///
    /// # Errors
    /// It is not more than zero, not finite, or has a fraction or a size that its kind does not take.
    pub fn check(self, value: f64) -> Result<(), InvalidQuota> {
        let key = self.key();
        if value.is_nan() || value <= 0.0 {
            return Err(InvalidQuota::NotPositive(key));
        }
        let (max, width) = match self {
            Self::RequestPercentage | Self::ControllerMutationRate => (f64::MAX, "a DOUBLE"),
            Self::ProducerByteRate | Self::ConsumerByteRate => (LONG_MAX, "a LONG"),
            Self::ConnectionCreationRate => (f64::from(i32::MAX), "an INT"),
        };
        if value > max {
            return Err(InvalidQuota::TooLarge { key, width });
        }
        let takes_fractions =
            matches!(self, Self::RequestPercentage | Self::ControllerMutationRate);
        if !takes_fractions && (value % 1.0).abs() > FRACTION_MAX {
            return Err(InvalidQuota::Fraction(key));
        }
        Ok(())
    }
}

/// The largest 64-bit number, as a float has it.
const LONG_MAX: f64 = 9_223_372_036_854_775_807.0;

/// What is no more than this is rounding, as in Kafka.
const FRACTION_MAX: f64 = 1e-6;

/// One part of an entity.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Name {
    /// All who have no quota by name.
    Default,
    /// One of them.
    Is(Box<str>),
}

impl Name {
    /// As Kafka writes it: the default has no text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Default => None,
            Self::Is(name) => Some(name),
        }
    }
}

/// The types of an entity's parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntityPart {
    /// `user`
    User,
    /// `client-id`
    ClientId,
    /// `ip`
    Ip,
}

impl EntityPart {
    /// Kafka's name of it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::ClientId => "client-id",
            Self::Ip => "ip",
        }
    }

    /// The type that Kafka calls `text`.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        [Self::User, Self::ClientId, Self::Ip]
            .into_iter()
            .find(|part| part.text() == text)
    }
}

/// What a quota applies to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QuotaEntity {
    /// The clients of a user.
    User(Name),
    /// The clients of a user with a client id.
    UserAndClient(Name, Name),
    /// The clients with a client id, whoever they are.
    Client(Name),
    /// Who connects from an address, in canonical form.
    Ip(Name),
}

/// A change of quotas that cannot be made. The texts are those of Kafka where it has the error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidQuota {
    /// No part, or an address together with something else.
    #[error("Invalid empty client quota entity")]
    Entity,
    /// A type twice.
    #[error("Invalid empty client quota entity, duplicate entity entry {0}")]
    DuplicatePart(&'static str),
    /// An unknown type.
    #[error("Unhandled client quota entity type: {0}")]
    UnknownPart(String),
    /// A name without text.
    #[error("Empty {0} not supported")]
    EmptyName(&'static str),
    /// A name beyond [`ENTITY_NAME_BYTES_MAX`].
    #[error("The {part} has {bytes} bytes; the longest has {ENTITY_NAME_BYTES_MAX}")]
    LongName {
        /// Its type.
        part: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// An address that is none. Host names are not resolved.
    #[error("{0} is not a valid IP address")]
    NoIp(String),
    /// A key that entities of this kind do not have.
    #[error("Invalid configuration key {0}")]
    UnknownKey(String),
    /// Zero or less.
    #[error("Quota {0} must be greater than 0")]
    NotPositive(&'static str),
    /// More than the key's type holds.
    #[error("Proposed value for {key} is too large for {width}.")]
    TooLarge {
        /// The key.
        key: &'static str,
        /// Its type.
        width: &'static str,
    },
    /// Not a whole number.
    #[error("{0} cannot be a fractional value.")]
    Fraction(&'static str),
}

impl QuotaEntity {
    /// The entity of these parts, each with its type and name; no name is the default.
    ///
    /// # Errors
    /// See [`InvalidQuota`].
    pub fn from_parts<'a>(
        parts: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Result<Self, InvalidQuota> {
        let (mut user, mut client_id, mut ip) = (None, None, None);
        for (text, name) in parts {
            let part = EntityPart::from_text(text)
                .ok_or_else(|| InvalidQuota::UnknownPart(text.to_owned()))?;
            let place = match part {
                EntityPart::User => &mut user,
                EntityPart::ClientId => &mut client_id,
                EntityPart::Ip => &mut ip,
            };
            if place.replace(checked_name(part, name)?).is_some() {
                return Err(InvalidQuota::DuplicatePart(part.text()));
            }
        }
        match (user, client_id, ip) {
            (Some(user), None, None) => Ok(Self::User(user)),
            (Some(user), Some(client_id), None) => Ok(Self::UserAndClient(user, client_id)),
            (None, Some(client_id), None) => Ok(Self::Client(client_id)),
            (None, None, Some(ip)) => Ok(Self::Ip(ip)),
            _ => Err(InvalidQuota::Entity),
        }
    }

    /// Its parts with their names.
    pub fn parts(&self) -> impl Iterator<Item = (EntityPart, &Name)> {
        let (first, second) = match self {
            Self::User(user) => ((EntityPart::User, user), None),
            Self::UserAndClient(user, client_id) => (
                (EntityPart::User, user),
                Some((EntityPart::ClientId, client_id)),
            ),
            Self::Client(client_id) => ((EntityPart::ClientId, client_id), None),
            Self::Ip(ip) => ((EntityPart::Ip, ip), None),
        };
        std::iter::once(first).chain(second)
    }

    /// The kind that `key` names, if this entity can have it.
    ///
    /// # Errors
    /// It cannot.
    pub fn kind(&self, key: &str) -> Result<QuotaKind, InvalidQuota> {
        let is_ip = matches!(self, Self::Ip(_));
        QuotaKind::from_key(key)
            .filter(|kind| (*kind == QuotaKind::ConnectionCreationRate) == is_ip)
            .ok_or_else(|| InvalidQuota::UnknownKey(key.to_owned()))
    }
}

fn checked_name(part: EntityPart, name: Option<&str>) -> Result<Name, InvalidQuota> {
    let Some(name) = name else {
        return Ok(Name::Default);
    };
    if name.is_empty() {
        return Err(InvalidQuota::EmptyName(part.text()));
    }
    if name.len() > ENTITY_NAME_BYTES_MAX {
        let (part, bytes) = (part.text(), name.len());
        return Err(InvalidQuota::LongName { part, bytes });
    }
    if part == EntityPart::Ip {
        let ip = canonical_ip(name).ok_or_else(|| InvalidQuota::NoIp(name.to_owned()))?;
        return Ok(Name::Is(ip.into()));
    }
    Ok(Name::Is(name.into()))
}

/// An address in the form in which the table has it.
pub(super) fn canonical_ip(text: &str) -> Option<String> {
    let ip: IpAddr = text.parse().ok()?;
    Some(ip.to_canonical().to_string())
}

/// The part of a client's name that tells it from others.
#[must_use]
pub fn entity_name(name: &str) -> &str {
    let end = name.floor_char_boundary(ENTITY_NAME_BYTES_MAX);
    name.get(..end).unwrap_or(name)
}
