//! `server.properties`: the text format, and where each value came from.
//!
//! The format is Java's: `key=value`, `key: value` or `key value`; `#` and `!` begin comments; a
//! backslash at the end of a line continues it; `\t \n \r \f \uXXXX` and a backslash before any
//! other character are escapes. The last of two equal keys wins, as it does in Kafka.

use std::{collections::BTreeMap, fmt};

/// The largest file that is read, in bytes: a thousand times a large one. What is larger is not a
/// configuration.
pub const PROPERTIES_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Where a value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In the file, on this line (from 1).
    File(usize),
    /// With `--override`.
    Override,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(line) => write!(f, "line {line} of the properties file"),
            Self::Override => f.write_str("--override"),
        }
    }
}

/// A value and where it was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// The text behind the key, without the white space around it.
    pub text: String,
    /// Where it was set.
    pub origin: Origin,
}

/// Keys and values, before anybody has looked at what they mean.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties(BTreeMap<String, Value>);

/// A text that is not in the format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProperties {
    /// `\u` without four hexadecimal digits behind it.
    #[error(
        "line {0} of the properties file: \\u needs four hexadecimal digits; write the character itself"
    )]
    Escape(usize),
    /// A line with a value but no key.
    #[error("line {0} of the properties file: there is no key before '='; write key=value")]
    NoKey(usize),
    /// An override without `=`.
    #[error("--override {0}: there is no '='; write --override key=value")]
    Override(String),
}

impl Properties {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// Names the first line that is not in the format.
    pub fn parse(text: &str) -> Result<Self, InvalidProperties> {
        let mut values = BTreeMap::new();
        let mut lines = text.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            let number = index + 1;
            let first = line.trim_start();
            if first.is_empty() || first.starts_with(['#', '!']) {
                continue;
            }
            let mut logical = first.to_owned();
            while continues(&logical) {
                logical.pop();
                match lines.next() {
                    Some((_, next)) => logical.push_str(next.trim_start()),
                    None => break,
                }
            }
            let (key, value) = split(&logical).ok_or(InvalidProperties::Escape(number))?;
            if key.is_empty() {
                return Err(InvalidProperties::NoKey(number));
            }
            let text = value.trim().to_owned();
            values.insert(
                key,
                Value {
                    text,
                    origin: Origin::File(number),
                },
            );
        }
        Ok(Self(values))
    }

    /// Lays `key=value` over what the file says.
    ///
    /// # Errors
    /// The text has no `=` or no key.
    pub fn set_override(&mut self, assignment: &str) -> Result<(), InvalidProperties> {
        let (key, value) = assignment
            .split_once('=')
            .filter(|(key, _)| !key.trim().is_empty())
            .ok_or_else(|| InvalidProperties::Override(assignment.to_owned()))?;
        let value = Value {
            text: value.trim().to_owned(),
            origin: Origin::Override,
        };
        self.0.insert(key.trim().to_owned(), value);
        Ok(())
    }

    /// One value.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// All keys with their values, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }
}

/// Whether a line ends with an odd number of backslashes.
fn continues(line: &str) -> bool {
    line.chars().rev().take_while(|&c| c == '\\').count() % 2 == 1
}

/// Splits a logical line at its first unescaped separator and resolves escapes.
fn split(line: &str) -> Option<(String, String)> {
    let mut chars = line.chars().peekable();
    let mut key = String::new();
    while let Some(&c) = chars.peek() {
        if matches!(c, '=' | ':') || c.is_whitespace() {
            break;
        }
        chars.next();
        key.push(if c == '\\' { escape(&mut chars)? } else { c });
    }
    while chars.next_if(|c| c.is_whitespace()).is_some() {}
    if chars.next_if(|c| matches!(c, '=' | ':')).is_some() {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
    }
    let mut value = String::new();
    while let Some(c) = chars.next() {
        value.push(if c == '\\' { escape(&mut chars)? } else { c });
    }
    Some((key, value))
}

fn escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<char> {
    match chars.next()? {
        't' => Some('\t'),
        'n' => Some('\n'),
        'r' => Some('\r'),
        'f' => Some('\u{c}'),
        'u' => {
            let digits: String = chars.by_ref().take(4).collect();
            let full = digits.len() == 4;
            let code = u32::from_str_radix(&digits, 16).ok().filter(|_| full)?;
            char::from_u32(code)
        }
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        let properties = Properties::parse(text).expect("legal");
        properties
            .iter()
            .map(|(k, v)| (k.to_owned(), v.text.clone()))
            .collect()
    }

    fn pair(text: &str) -> (String, String) {
        pairs(text).pop().expect("one pair")
    }

    #[test]
    fn the_separators_and_comments_of_java() {
        for text in [
            "a.b=c d",
            "a.b = c d",
            "a.b:c d",
            "  a.b   c d  ",
            "# x\n! y\n\na.b=c d",
        ] {
            assert_eq!(pair(text), ("a.b".into(), "c d".into()), "{text:?}");
        }
        assert_eq!(pair("empty="), ("empty".into(), String::new()));
        assert_eq!(pair("bare"), ("bare".into(), String::new()));
        assert_eq!(pair("uri=0@file:///a?b=c&d=e").1, "0@file:///a?b=c&d=e");
    }

    #[test]
    fn escapes_and_continuations() {
        assert_eq!(pair("a\\=b=c").0, "a=b");
        assert_eq!(
            pair(r"a=tab\tnewline\nback\\slash").1,
            "tab\tnewline\nback\\slash"
        );
        assert_eq!(pair(r"a=\u00e9").1, "é");
        assert_eq!(pair("a=one,\\\n    two").1, "one,two");
        assert_eq!(
            pairs("a=ends\\\\\nb=c").len(),
            2,
            "an escaped backslash does not continue"
        );
        assert_eq!(pair("a=cut\\").1, "cut");
    }

    #[test]
    fn the_last_one_wins_and_overrides_win_over_all() {
        let mut properties = Properties::parse("a=1\na=2").expect("legal");
        assert_eq!(properties.get("a").expect("set").origin, Origin::File(2));
        properties.set_override("a = 3=4").expect("legal");
        let value = properties.get("a").expect("set");
        assert_eq!(
            (value.text.as_str(), &value.origin),
            ("3=4", &Origin::Override)
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        assert_eq!(
            Properties::parse("a=1\n=2"),
            Err(InvalidProperties::NoKey(2))
        );
        assert_eq!(
            Properties::parse(r"a=\u12"),
            Err(InvalidProperties::Escape(1))
        );
        let mut properties = Properties::default();
        for bad in ["a", "=b", ""] {
            assert!(properties.set_override(bad).is_err(), "{bad:?}");
        }
    }
}
