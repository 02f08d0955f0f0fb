//! Which entities a description asks for.

use std::collections::BTreeMap;

use super::entity::{EntityPart, Name, QuotaEntity, canonical_ip};

/// What one part of an entity has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterPart {
    /// This name, or the default.
    Is(Name),
    /// Any name or the default, as long as the entity has the part.
    Any,
}

/// Entities with these parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuotaFilter {
    parts: BTreeMap<EntityPart, FilterPart>,
    strict: bool,
}

/// A filter that is none. The texts are Kafka's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFilter {
    /// A type without text.
    #[error("Invalid empty entity type.")]
    EmptyType,
    /// A type twice.
    #[error("Entity type {0} cannot appear more than once in the filter.")]
    Twice(&'static str),
    /// An unknown type.
    #[error("Unsupported entity type {0}")]
    UnknownType(String),
    /// An exact match with nothing.
    #[error("Request specified MATCH_TYPE_EXACT, but set match string to null.")]
    ExactWithoutText,
    /// A text where none belongs.
    #[error("Request specified {0}, but also specified a match string.")]
    UnwantedText(&'static str),
    /// An unknown kind of match.
    #[error("Unknown match type {0}")]
    UnknownMatch(i8),
    /// An address together with something else.
    #[error(
        "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component."
    )]
    IpWithOthers,
}

impl QuotaFilter {
    /// The filter of these parts: type, kind of match (0 exactly, 1 the default, 2 any) and text. Where
    /// it is strict, entities with other parts do not match.
    ///
    /// # Errors
    /// See [`InvalidFilter`].
    pub fn new<'a>(
        asked: impl IntoIterator<Item = (&'a str, i8, Option<&'a str>)>,
        strict: bool,
    ) -> Result<Self, InvalidFilter> {
        let mut parts = BTreeMap::new();
        for (text, match_type, name) in asked {
            if text.is_empty() {
                return Err(InvalidFilter::EmptyType);
            }
            let part = EntityPart::from_text(text)
                .ok_or_else(|| InvalidFilter::UnknownType(text.to_owned()))?;
            if parts.contains_key(&part) {
                return Err(InvalidFilter::Twice(part.text()));
            }
            parts.insert(part, filter_part(part, match_type, name)?);
        }
        if parts.contains_key(&EntityPart::Ip) && parts.len() > 1 {
            return Err(InvalidFilter::IpWithOthers);
        }
        Ok(Self { parts, strict })
    }

    /// Whether an entity is asked for.
    #[must_use]
    pub fn matches(&self, entity: &QuotaEntity) -> bool {
        let has = |part: &EntityPart, wanted: &FilterPart| {
            let mut names = entity.parts().filter(|(of, _)| of == part);
            names.any(|(_, name)| match wanted {
                FilterPart::Any => true,
                FilterPart::Is(wanted) => wanted == name,
            })
        };
        // Kafka's answer to a strict filter without parts is empty, too.
        let strict = !self.strict || entity.parts().count() == self.parts.len();
        strict && self.parts.iter().all(|(part, wanted)| has(part, wanted))
    }
}

fn filter_part(
    part: EntityPart,
    match_type: i8,
    name: Option<&str>,
) -> Result<FilterPart, InvalidFilter> {
    match (match_type, name) {
        (0, None) => Err(InvalidFilter::ExactWithoutText),
        (0, Some(name)) => {
            let ip = (part == EntityPart::Ip)
                .then(|| canonical_ip(name))
                .flatten();
            let name = ip.map_or_else(|| name.into(), String::into_boxed_str);
            Ok(FilterPart::Is(Name::Is(name)))
        }
        (1, None) => Ok(FilterPart::Is(Name::Default)),
        (1, Some(_)) => Err(InvalidFilter::UnwantedText("MATCH_TYPE_DEFAULT")),
        (2, None) => Ok(FilterPart::Any),
        (2, Some(_)) => Err(InvalidFilter::UnwantedText("MATCH_TYPE_SPECIFIED")),
        (other, _) => Err(InvalidFilter::UnknownMatch(other)),
    }
}
