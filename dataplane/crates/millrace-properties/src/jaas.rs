//! `sasl.jaas.config`: Java's form of a login module with options, such as
//! `org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";`.

use std::{collections::BTreeMap, str::FromStr};

/// The module of PLAIN.
pub const PLAIN_MODULE: &str = "org.apache.kafka.common.security.plain.PlainLoginModule";
/// The module of OAUTHBEARER.
pub const OAUTH_MODULE: &str =
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule";
/// The module of SCRAM.
pub const SCRAM_MODULE: &str = "org.apache.kafka.common.security.scram.ScramLoginModule";

/// One login module.
#[derive(Clone, PartialEq, Eq)]
pub struct JaasEntry {
    /// Its class.
    pub module: String,
    /// Its options. They may be passwords.
    pub options: BTreeMap<String, String>,
}

/// A text is no login module. The text names no option's value: it may be a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidJaas {
    /// No class, or no flag behind it.
    #[error("the JAAS configuration does not begin with a module and \"required\"")]
    Module,
    /// An option without name or value.
    #[error("a JAAS option is not name=value or name=\"value\"")]
    Option,
    /// No semicolon, or something behind it.
    #[error("the JAAS configuration does not end with one semicolon")]
    End,
}

impl FromStr for JaasEntry {
    type Err = InvalidJaas;

    fn from_str(text: &str) -> Result<Self, InvalidJaas> {
        let text = text.trim();
        let (module, rest) = text
            .split_once(char::is_whitespace)
            .ok_or(InvalidJaas::Module)?;
        let (flag, mut rest) = rest
            .trim_start()
            .split_once(|c: char| c.is_whitespace() || c == ';')
            .map(|(flag, _)| (flag, &rest.trim_start()[flag.len()..]))
            .ok_or(InvalidJaas::Module)?;
        if !flag.eq_ignore_ascii_case("required") {
            return Err(InvalidJaas::Module);
        }
        let mut options = BTreeMap::new();
        loop {
            rest = rest.trim_start();
            if let Some(behind) = rest.strip_prefix(';') {
                let end = behind.trim().is_empty();
                return match end {
                    true => Ok(Self {
                        module: module.to_owned(),
                        options,
                    }),
                    false => Err(InvalidJaas::End),
                };
            }
            if rest.is_empty() {
                return Err(InvalidJaas::End);
            }
            let (name, behind) = rest.split_once('=').ok_or(InvalidJaas::Option)?;
            let (value, behind) = value(behind.trim_start())?;
            options.insert(name.trim().to_owned(), value);
            rest = behind;
        }
    }
}

/// A value, in quotation marks or up to white space or the semicolon, and what follows it.
fn value(text: &str) -> Result<(String, &str), InvalidJaas> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(|c: char| c.is_whitespace() || c == ';');
        let (value, rest) = text.split_at(end.unwrap_or(text.len()));
        return match value {
            "" => Err(InvalidJaas::Option),
            value => Ok((value.to_owned(), rest)),
        };
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((value, quoted.get(at + 1..).unwrap_or_default())),
            '\\' => value.push(characters.next().ok_or(InvalidJaas::Option)?.1),
            other => value.push(other),
        }
    }
    Err(InvalidJaas::Option)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<(String, String)>, InvalidJaas> {
        let entry = text.parse::<JaasEntry>()?;
        assert_eq!(entry.module, "a.Module");
        Ok(entry.options.into_iter().collect())
    }

    #[test]
    fn modules_and_options() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(parse("a.Module required;"), Ok(vec![]));
        assert_eq!(
            parse(r#" a.Module  required user_a="x; \"y\"\\" user_b = z ; "#),
            Ok(vec![pair("user_a", r#"x; "y"\"#), pair("user_b", "z")])
        );
        for (text, error) in [
            ("", InvalidJaas::Module),
            ("a.Module;", InvalidJaas::Module),
            ("a.Module optional;", InvalidJaas::Module),
            ("a.Module required", InvalidJaas::Module),
            ("a.Module required a=b", InvalidJaas::End),
            ("a.Module required a=b; c=d;", InvalidJaas::End),
            ("a.Module required a;", InvalidJaas::Option),
            ("a.Module required a=;", InvalidJaas::Option),
            ("a.Module required a=\"b;", InvalidJaas::Option),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
    }
}
