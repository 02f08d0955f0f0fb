//! Reads typed values from properties, and records which took effect, which were wrong, and which are
//! unknown.

use std::{
    collections::BTreeSet,
    fmt::{Display, Write as _},
    ops::RangeInclusive,
    str::FromStr,
    time::Duration,
};

use millrace_api::settings::SettingKind;
use millrace_properties::{Properties, Value};

use crate::config::{ConfigError, Setting, accepted};

/// Reads values and collects every error, so that an operator sees all of them at once.
pub(super) struct Reader<'a> {
    properties: &'a Properties,
    asked: BTreeSet<&'static str>,
    /// Keys of single listeners.
    asked_of_listeners: BTreeSet<String>,
    settings: Vec<Setting>,
    errors: Vec<ConfigError>,
}

/// Whether the effective value may be shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Plainly,
    /// It may hold credentials.
    Hidden,
}

impl<'a> Reader<'a> {
    pub(super) fn new(properties: &'a Properties) -> Self {
        Self {
            properties,
            asked: BTreeSet::new(),
            asked_of_listeners: BTreeSet::new(),
            settings: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// The settings, sorted by key, or every error.
    pub(super) fn finish(mut self) -> Result<Vec<Setting>, Vec<ConfigError>> {
        if !self.errors.is_empty() {
            return Err(self.errors);
        }
        self.settings.sort_by(|a, b| a.key.cmp(b.key));
        Ok(self.settings)
    }

    /// Checks what nobody asked for; gives the keys that Kafka does not know either.
    pub(super) fn rest(&mut self) -> Vec<String> {
        self.check_rest();
        self.unknown()
    }

    fn unknown(&self) -> Vec<String> {
        let known = |key: &str| {
            self.asked.contains(key)
                || self.asked_of_listeners.contains(key)
                || accepted::is_known(key)
        };
        self.properties
            .iter()
            .filter(|(key, _)| !known(key))
            .map(|(key, value)| match accepted::nearest(key, &self.asked) {
                Some(near) => format!("{key} ({}): did you mean {near}?", value.origin),
                None => format!("{key} ({})", value.origin),
            })
            .collect()
    }

    /// Rejects values of Kafka's properties that nobody asked for and that do not hold here.
    fn check_rest(&mut self) {
        for (key, value) in self.properties.iter() {
            let is_read = self.asked.contains(key) || self.asked_of_listeners.contains(key);
            if is_read || value.text.is_empty() {
                continue;
            }
            if let Err(rejected) = accepted::check(key, &value.text) {
                self.errors.push(ConfigError {
                    key: key.to_owned().into(),
                    origin: Some(value.origin.clone()),
                    problem: rejected.problem,
                    remedy: rejected.remedy,
                });
            }
        }
    }

    pub(super) fn fail(&mut self, key: &'static str, problem: impl Display, remedy: &str) {
        let origin = self.properties.get(key).map(|value| value.origin.clone());
        let (problem, remedy) = (problem.to_string(), remedy.to_owned());
        self.errors.push(ConfigError {
            key: key.into(),
            origin,
            problem,
            remedy,
        });
    }

    /// The text of a key, if it is set to something.
    fn raw(&mut self, key: &'static str) -> Option<&'a Value> {
        self.asked.insert(key);
        self.properties
            .get(key)
            .filter(|value| !value.text.is_empty())
    }

    fn note(
        &mut self,
        key: &'static str,
        value: impl Display,
        kind: SettingKind,
        is_default: bool,
    ) {
        let value = value.to_string();
        self.settings.push(Setting {
            key,
            default: is_default.then(|| value.clone()),
            value: Some(value),
            is_default,
            kind: if key.ends_with("listeners") {
                SettingKind::List
            } else {
                kind
            },
            range: None,
        });
    }

    /// What the setting that was noted last has where nobody sets it.
    fn note_default(&mut self, default: impl Display) {
        if let Some(setting) = self.settings.last_mut() {
            setting.default = Some(default.to_string());
        }
    }

    pub(super) fn text(&mut self, key: &'static str, default: &str) -> String {
        let set = self.raw(key).map(|value| value.text.clone());
        let is_default = set.is_none();
        let text = set.unwrap_or_else(|| default.to_owned());
        self.note(key, &text, SettingKind::String, is_default);
        self.note_default(default);
        text
    }

    /// A text of any kind, if it is set. What nobody set is listed only if there is a default.
    pub(super) fn raw_or_default(
        &mut self,
        key: &'static str,
        kind: SettingKind,
        default: Option<&str>,
    ) -> Option<String> {
        let set = self.raw(key).map(|value| value.text.clone());
        if let Some(shown) = set.as_deref().or(default) {
            self.note(key, shown, kind, set.is_none());
        }
        if let Some(default) = default {
            self.note_default(default);
        }
        set
    }

    /// A text that may be absent.
    pub(super) fn optional(&mut self, key: &'static str) -> Option<String> {
        let text = self.raw(key).map(|value| value.text.clone());
        let shown = text.as_deref().unwrap_or_default();
        self.note(key, shown, SettingKind::String, text.is_none());
        text
    }

    /// What holds for one listener: `listener.name.<listener>.<key>`, or else `<key>`. It may be a secret, so
    /// it is not listed among the settings.
    pub(super) fn for_listener(&mut self, listener: &str, key: &str) -> Option<String> {
        let own = format!("listener.name.{}.{key}", listener.to_ascii_lowercase());
        let of = |key: &str| {
            let value = self.properties.get(key);
            value.filter(|value| !value.text.is_empty())
        };
        let value = of(&own).or_else(|| of(key)).map(|value| value.text.clone());
        self.asked_of_listeners.extend([own, key.to_owned()]);
        value
    }

    /// What holds for one listener by a setting of its own.
    pub(super) fn for_listener_only(&mut self, listener: &str, key: &str) -> Option<String> {
        let own = format!("listener.name.{}.{key}", listener.to_ascii_lowercase());
        let value = self.properties.get(&own);
        let value = value.filter(|value| !value.text.is_empty());
        self.asked_of_listeners.extend([own, key.to_owned()]);
        value.map(|value| value.text.clone())
    }

    /// A setting for tests: it is listed only if it is set.
    pub(super) fn for_tests(&mut self, key: &'static str) -> Option<String> {
        let text = self.raw(key).map(|value| value.text.clone())?;
        self.note(key, &text, SettingKind::String, false);
        Some(text)
    }

    /// A secret, if it is set. Its value is not listed.
    pub(super) fn secret(&mut self, key: &'static str) -> Option<String> {
        let text = self.raw(key).map(|value| value.text.clone())?;
        self.note(key, "", SettingKind::String, false);
        if let Some(setting) = self.settings.last_mut() {
            setting.value = None;
        }
        Some(text)
    }

    /// Something that parses itself and says what is wrong.
    pub(super) fn parsed<T>(
        &mut self,
        key: &'static str,
        default: &str,
        shown: Shown,
        remedy: &str,
    ) -> Option<T>
    where
        T: FromStr<Err: Display>,
    {
        let set = self.raw(key).map(|value| value.text.clone());
        let is_default = set.is_none();
        let text = set.unwrap_or_else(|| default.to_owned());
        self.note(key, &text, SettingKind::String, is_default);
        self.note_default(default);
        if let (Shown::Hidden, Some(setting)) = (shown, self.settings.last_mut()) {
            (setting.value, setting.default) = (None, None);
        }
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.fail(key, error, remedy);
                None
            }
        }
    }

    pub(super) fn flag(&mut self, key: &'static str, default: bool) -> bool {
        let set = self.raw(key).map(|value| value.text.to_ascii_lowercase());
        let value = match set.as_deref() {
            None => default,
            Some("true") => true,
            Some("false") => false,
            Some(other) => {
                self.fail(
                    key,
                    format!("{other:?} is neither true nor false"),
                    "write true or false",
                );
                default
            }
        };
        self.note(key, value, SettingKind::Boolean, set.is_none());
        self.note_default(default);
        value
    }

    /// A whole number within bounds.
    pub(super) fn number(
        &mut self,
        key: &'static str,
        default: i64,
        range: RangeInclusive<i64>,
    ) -> i64 {
        self.measure(key, default, range, "a whole number", str::parse::<i64>)
    }

    /// A whole number within bounds that has no default of its own.
    pub(super) fn number_if_set(
        &mut self,
        key: &'static str,
        range: RangeInclusive<i64>,
    ) -> Option<i64> {
        self.raw(key)?;
        Some(self.number(key, *range.start(), range))
    }

    /// A count of bytes: a plain number, or one with KiB, MiB or GiB behind it.
    pub(super) fn bytes(
        &mut self,
        key: &'static str,
        default: usize,
        range: RangeInclusive<i64>,
    ) -> usize {
        let default = i64::try_from(default).unwrap_or(i64::MAX);
        let number = self.measure(key, default, range, "a number of bytes", parse_bytes);
        usize::try_from(number).unwrap_or(0)
    }

    /// A count of bytes, or `unset`, which lies outside of `range` and is the default.
    pub(super) fn bytes_or(
        &mut self,
        key: &'static str,
        unset: i64,
        range: RangeInclusive<i64>,
    ) -> i64 {
        let (min, max) = (*range.start(), *range.end());
        let number = self.measure(key, unset, unset..=max, "a number of bytes", parse_bytes);
        if number != unset && number < min {
            let problem = format!("{number} is below the least of {min}");
            let remedy = format!("write {min} or more, or {unset} for what suits the machine");
            self.fail(key, problem, &remedy);
        }
        number
    }

    /// Milliseconds.
    pub(super) fn millis(
        &mut self,
        key: &'static str,
        default: Duration,
        range: RangeInclusive<i64>,
    ) -> Duration {
        let default = i64::try_from(default.as_millis()).unwrap_or(i64::MAX);
        let number = self.measure(key, default, range, "milliseconds", str::parse::<i64>);
        Duration::from_millis(u64::try_from(number).unwrap_or(0))
    }

    fn measure<E>(
        &mut self,
        key: &'static str,
        default: i64,
        range: RangeInclusive<i64>,
        what: &str,
        parse: impl Fn(&str) -> Result<i64, E>,
    ) -> i64 {
        let set = self.raw(key);
        let number = set.map_or(Some(default), |value| {
            parse(&value.text)
                .ok()
                .filter(|number| range.contains(number))
        });
        let small = i32::try_from(*range.end()).is_ok();
        let kind = if small {
            SettingKind::Int
        } else {
            SettingKind::Long
        };
        self.note(key, number.unwrap_or(default), kind, set.is_none());
        self.note_default(default);
        if let Some(setting) = self.settings.last_mut() {
            setting.range = Some((*range.start(), *range.end()));
        }
        if let (None, Some(value)) = (number, set) {
            let problem = format!("{:?} is not {what} in range", value.text);
            let mut remedy = format!("write {what} from {} to {}", range.start(), range.end());
            let _ = write!(remedy, ", or remove the line for the default of {default}");
            self.fail(key, problem, &remedy);
        }
        number.unwrap_or(default)
    }
}

/// A whole number, perhaps with KiB, MiB or GiB behind it.
pub(crate) fn parse_bytes(text: &str) -> Result<i64, ()> {
    const UNITS: [(&str, i64); 3] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    for (suffix, unit) in UNITS {
        if let Some(number) = text.strip_suffix(suffix) {
            let number: i64 = number.trim().parse().map_err(|_| ())?;
            return number.checked_mul(unit).ok_or(());
        }
    }
    text.parse().map_err(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_may_have_units() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("4KiB"), Ok(4096));
        assert_eq!(parse_bytes("2 GiB"), Ok(2 << 30));
        for bad in ["4kb", "", "KiB", "9999999999999GiB", "1.5MiB"] {
            assert!(parse_bytes(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_error_is_collected_and_names_key_place_and_remedy() {
        let properties = Properties::parse("a=x\nb=7\nc=maybe").expect("legal");
        let mut reader = Reader::new(&properties);
        assert_eq!(reader.number("a", 5, 0..=9), 5);
        assert_eq!(reader.number("b", 5, 0..=6), 5);
        assert!(reader.flag("c", true));
        let errors = reader.finish().expect_err("three are wrong");
        let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(text.len(), 3);
        assert!(
            text[0].contains("a (line 1") && text[0].contains("from 0 to 9"),
            "{}",
            text[0]
        );
        assert!(text[1].contains("\"7\""), "{}", text[1]);
        assert!(text[2].contains("true or false"), "{}", text[2]);
    }

    #[test]
    fn unknown_keys_are_named_with_the_key_that_was_meant() {
        let text = "message.max.byte=1\nlog.dirs=/x\nqqq=1";
        let properties = Properties::parse(text).expect("legal");
        let mut reader = Reader::new(&properties);
        reader.number("message.max.bytes", 5, 0..=9);
        let unknown = reader.unknown();
        assert_eq!(unknown.len(), 2, "{unknown:?}");
        assert!(
            unknown[0].ends_with("did you mean message.max.bytes?"),
            "{unknown:?}"
        );
    }
}
