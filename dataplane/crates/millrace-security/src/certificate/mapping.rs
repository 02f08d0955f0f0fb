//! `ssl.principal.mapping.rules` (KIP-371): a list of `RULE:pattern/replacement/[LU]` and `DEFAULT`,
//! separated by commas. The first rule whose pattern matches the whole distinguished name decides;
//! `DEFAULT` takes the name as it is. `L` and `U` make the result lower and upper case.
//!
//! A `/` in pattern or replacement is written `\/`. Replacements are Java's: `$1` and `${name}` are groups,
//! `\` takes the meaning from what follows. Patterns are those of the `regex` crate, which are matched in
//! linear time: no look-around and no back references.

use std::str::FromStr;

use regex::{Captures, Regex, RegexBuilder};

/// The largest compiled pattern, in bytes: a thousand times an ordinary one.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// The rules of a listener.
#[derive(Debug, Clone)]
pub struct PrincipalMapping(Vec<Rule>);

#[derive(Debug, Clone)]
enum Rule {
    /// The distinguished name itself.
    Default,
    Replace(Box<Replace>),
}

#[derive(Debug, Clone)]
struct Replace {
    /// Matches whole names.
    whole: Regex,
    /// What is replaced, wherever it occurs.
    pattern: Regex,
    replacement: Vec<Part>,
    case: Case,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(char),
    Group(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Kept,
    Lower,
    Upper,
}

/// A text is no list of rules. The text is for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMappingRules {
    /// Neither form.
    #[error(
        "{0:?} is neither DEFAULT nor RULE:pattern/replacement/ with an optional L or U behind it"
    )]
    Form(String),
    /// The pattern is no regular expression, or uses what is not supported.
    #[error("the pattern {pattern:?} cannot be used: {problem}")]
    Pattern {
        /// As it is written.
        pattern: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A `$` that is followed by no group of the pattern.
    #[error(
        "the replacement {0:?} has a $ that names no group of its pattern; write \\$ for the character"
    )]
    Group(String),
}

impl Default for PrincipalMapping {
    /// `DEFAULT`
    fn default() -> Self {
        Self(vec![Rule::Default])
    }
}

impl PrincipalMapping {
    /// The principal's name for a distinguished name; nothing where no rule holds.
    #[must_use]
    pub fn map(&self, distinguished_name: &str) -> Option<String> {
        self.0.iter().find_map(|rule| match rule {
            Rule::Default => Some(distinguished_name.to_owned()),
            Rule::Replace(replace) => replace.apply(distinguished_name),
        })
    }
}

impl FromStr for PrincipalMapping {
    type Err = InvalidMappingRules;

    fn from_str(text: &str) -> Result<Self, InvalidMappingRules> {
        let mut rules = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (rule, behind) = match split_replace(rest) {
                Some((pattern, replacement, case, behind)) => {
                    let rule = Replace::new(pattern, replacement, case)?;
                    (Some(Rule::Replace(Box::new(rule))), behind)
                }
                None => match rest.strip_prefix("DEFAULT") {
                    Some(behind) => (Some(Rule::Default), behind),
                    None => (None, rest),
                },
            };
            // Only a comma or the end may follow; empty entries are ignored.
            let behind = behind.trim_start();
            rest = match behind.strip_prefix(',') {
                Some(next) => next.trim_start(),
                None if behind.is_empty() => behind,
                None => return Err(InvalidMappingRules::Form(rest.to_owned())),
            };
            rules.extend(rule);
        }
        Ok(Self(rules))
    }
}

/// The parts of `RULE:pattern/replacement/[LU]`, and what follows it.
fn split_replace(text: &str) -> Option<(&str, &str, Case, &str)> {
    let rest = text.strip_prefix("RULE:")?;
    let (pattern, rest) = split_unescaped_slash(rest)?;
    let (replacement, rest) = split_unescaped_slash(rest)?;
    let (case, rest) = match rest.strip_prefix('L') {
        Some(rest) => (Case::Lower, rest),
        None => match rest.strip_prefix('U') {
            Some(rest) => (Case::Upper, rest),
            None => (Case::Kept, rest),
        },
    };
    Some((pattern, replacement, case, rest))
}

fn split_unescaped_slash(text: &str) -> Option<(&str, &str)> {
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '/' => return Some((text.get(..at)?, text.get(at + 1..)?)),
            _ => {}
        }
    }
    None
}

impl Replace {
    fn new(pattern: &str, replacement: &str, case: Case) -> Result<Self, InvalidMappingRules> {
        let compile = |text: &str| {
            let compiled = RegexBuilder::new(text)
                .size_limit(PATTERN_BYTES_MAX)
                .build();
            compiled.map_err(|error| InvalidMappingRules::Pattern {
                pattern: pattern.to_owned(),
                problem: error.to_string(),
            })
        };
        let alone = compile(pattern)?;
        Ok(Self {
            whole: compile(&format!(r"\A(?:{pattern})\z"))?,
            replacement: parts(replacement, &alone)
                .ok_or_else(|| InvalidMappingRules::Group(replacement.to_owned()))?,
            pattern: alone,
            case,
        })
    }

    fn apply(&self, name: &str) -> Option<String> {
        if !self.whole.is_match(name) {
            return None;
        }
        let replaced = self.replace_all(name);
        Some(match self.case {
            Case::Kept => replaced,
            Case::Lower => replaced.to_lowercase(),
            Case::Upper => replaced.to_uppercase(),
        })
    }

    /// As Java's `replaceAll`, which, unlike this crate's, also finds an empty match right behind another.
    fn replace_all(&self, name: &str) -> String {
        let mut replaced = String::new();
        let (mut copied, mut at) = (0, 0);
        while let Some(captures) = self.pattern.captures_at(name, at) {
            let Some(found) = captures.get(0) else { break };
            replaced.push_str(name.get(copied..found.start()).unwrap_or_default());
            self.append(&captures, &mut replaced);
            copied = found.end();
            at = match found.is_empty() {
                false => found.end(),
                true => {
                    let next = name.get(found.end()..).and_then(|rest| rest.chars().next());
                    let Some(next) = next else { break };
                    found.end() + next.len_utf8()
                }
            };
        }
        replaced.push_str(name.get(copied..).unwrap_or_default());
        replaced
    }

    fn append(&self, captures: &Captures<'_>, replaced: &mut String) {
        for part in &self.replacement {
            match part {
                Part::Literal(character) => replaced.push(*character),
                Part::Group(group) => {
                    replaced.push_str(captures.get(*group).map_or("", |group| group.as_str()));
                }
            }
        }
    }
}

/// A replacement's parts; nothing where a `$` names no group. The number of a group takes as many digits as
/// there are groups for. A number without a group stands for itself if the pattern has groups at all.
fn parts(replacement: &str, pattern: &Regex) -> Option<Vec<Part>> {
    let groups = pattern.captures_len() - 1;
    let mut parts = Vec::new();
    let mut rest = replacement.chars();
    while let Some(character) = rest.next() {
        match character {
            '\\' => parts.push(Part::Literal(rest.next()?)),
            '$' => {
                if let Some(name) = rest.as_str().strip_prefix('{') {
                    let (name, behind) = name.split_once('}')?;
                    let mut names = pattern.capture_names();
                    parts.push(Part::Group(names.position(|one| one == Some(name))?));
                    rest = behind.chars();
                    continue;
                }
                let digit = |rest: &std::str::Chars<'_>| {
                    let next = rest.clone().next();
                    let value = next.and_then(|next| next.to_digit(10));
                    value.and_then(|value| usize::try_from(value).ok())
                };
                let mut group = digit(&rest)?;
                if group > groups {
                    if groups == 0 {
                        return None;
                    }
                    parts.push(Part::Literal('$'));
                    continue;
                }
                rest.next();
                while let Some(next) = digit(&rest).filter(|next| group * 10 + next <= groups) {
                    group = group * 10 + next;
                    rest.next();
                }
                parts.push(Part::Group(group));
            }
            other => parts.push(Part::Literal(other)),
        }
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn map(rules: &str, name: &str) -> Option<String> {
        rules.parse::<PrincipalMapping>().expect("legal").map(name)
    }

    /// Rules, a distinguished name, and what Kafka's `SslPrincipalMapper` (4.3) makes of it.
    #[test]
    fn names_are_mapped_as_kafka_maps_them() {
        let documented = "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, \
            RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,\
            RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U,\
            RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT";
        let cases = [
            (
                documented,
                "CN=Duke,OU=ServiceUsers,O=Org,C=US",
                Some("duke"),
            ),
            (
                documented,
                "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US",
                Some("duke@sme"),
            ),
            (
                documented,
                "cn=duke,ou=sme,dc=mycp,dc=com",
                Some("DUKE@SME"),
            ),
            (
                documented,
                "cN=duke,OU=JavaSoft,O=Sun Microsystems",
                Some("DUKE"),
            ),
            (
                documented,
                "OU=JavaSoft,O=Sun,C=US",
                Some("OU=JavaSoft,O=Sun,C=US"),
            ),
            // Only whole names match, but what is replaced is found as often as it occurs.
            ("RULE:CN=(.*?)/$1/", "CN=a,OU=b", Some("a,OU=b")),
            ("RULE:CN=a/x/", "CN=a,OU=b", None),
            ("RULE:(a)*/x/", "aaa", Some("xx")),
            ("RULE:[ab]*/<$0>/", "abab", Some("<abab><>")),
            // Groups.
            ("RULE:CN=(.*)/$1@$4/", "CN=a", Some("a@$4")),
            ("RULE:CN=(.*)/$11/", "CN=a", Some("a1")),
            ("RULE:CN=(.*)/$01/", "CN=a", Some("a")),
            ("RULE:CN=(.*)/$41/", "CN=a", Some("$41")),
            ("RULE:CN=(.*)/$0/", "CN=a", Some("CN=a")),
            ("RULE:CN=(?<name>.*)/${name}/", "CN=a", Some("a")),
            ("RULE:CN=(x)?a/<$1>/", "CN=a", Some("<>")),
            (r"RULE:CN=(.*)/\$1\\$1/", "CN=a", Some(r"$1\a")),
            // Escaped separators, commas, white space.
            (r"RULE:CN=(.*)\/(.*)/$2\/$1/", "CN=a/b", Some("b/a")),
            (
                "RULE:CN=(.*),OU=b/$1,$1/U , DEFAULT",
                "CN=a,OU=b",
                Some("A,A"),
            ),
            ("  RULE:  /   /  ,  DEFAULT ", "  ", Some("   ")),
            (
                r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT",
                r"CN=Tkac\, Adam,OU=ITZ,DC=cz",
                Some(r"Tkac\, Adam"),
            ),
            (
                "RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/",
                "CN=bob,O=x",
                Some("bob"),
            ),
            ("RULE://", "", Some("")),
            ("", "CN=a", None),
            (", ,DEFAULT,,", "CN=a", Some("CN=a")),
        ];
        for (rules, name, expected) in cases {
            assert_eq!(map(rules, name).as_deref(), expected, "{rules} for {name}");
        }
    }

    #[test]
    fn other_rules_are_refused() {
        let form = [
            "default",
            "DEFAUL",
            "DEFAULT/L",
            "DEFAULT RULE://",
            "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
            "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
            "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
            "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
            "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
            "RULE:a/b/LU",
            r"RULE:a/b\/",
            "DEFAULT,x",
        ];
        for rules in form {
            let refused = rules.parse::<PrincipalMapping>().expect_err(rules);
            assert!(
                matches!(refused, InvalidMappingRules::Form(_)),
                "{rules}: {refused}"
            );
        }
        for rules in ["RULE:(/x/", "RULE:(?=a)a/x/", r"RULE:(a)\1/x/"] {
            let refused = rules.parse::<PrincipalMapping>().expect_err(rules);
            assert!(
                matches!(refused, InvalidMappingRules::Pattern { .. }),
                "{rules}: {refused}"
            );
        }
        for rules in [
            "RULE:a/$1/",
            "RULE:(a)/$/",
            "RULE:(a)/$x/",
            "RULE:(a)/${b}/",
        ] {
            let refused = rules.parse::<PrincipalMapping>().expect_err(rules);
            assert!(
                matches!(refused, InvalidMappingRules::Group(_)),
                "{rules}: {refused}"
            );
        }
    }

    proptest! {
        #[test]
        fn arbitrary_texts_never_panic(
            rules in "((RULE:)?[a(.*)$1\\\\/LU,DEFAULT {}]{0,12}){0,3}",
            name in "[a-c,=é]{0,8}",
        ) {
            if let Ok(mapping) = rules.parse::<PrincipalMapping>() {
                let _ = mapping.map(&name);
            }
        }
    }
}
