//! The flags of a role.

use std::{collections::BTreeMap, str::FromStr};

/// `--name value` and `--name` alone, each at most once. A role takes what it knows and then
/// [`finish`](Self::finish)es, which refuses the rest.
#[derive(Debug)]
pub(super) struct Flags(BTreeMap<String, Option<String>>);

impl Flags {
    pub(super) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut flags = BTreeMap::new();
        let mut arguments = arguments.iter().peekable();
        while let Some(argument) = arguments.next() {
            let name = argument.strip_prefix("--");
            let name = name.ok_or_else(|| format!("{argument:?} is no flag"))?;
            let value = arguments.next_if(|next| !next.starts_with("--")).cloned();
            if flags.insert(name.to_owned(), value).is_some() {
                return Err(format!("--{name} is given twice"));
            }
        }
        Ok(Self(flags))
    }

    /// A flag without a value.
    pub(super) fn switch(&mut self, name: &str) -> Result<bool, String> {
        match self.0.remove(name) {
            None => Ok(false),
            Some(None) => Ok(true),
            Some(Some(value)) => Err(format!("--{name} takes no value, not {value:?}")),
        }
    }

    /// A flag that may be left out.
    pub(super) fn optional<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, String> {
        let Some(value) = self.0.remove(name) else {
            return Ok(None);
        };
        let value = value.ok_or_else(|| format!("--{name} needs a value"))?;
        let parsed = value.parse();
        parsed.map_or_else(
            |_| Err(format!("--{name} cannot be {value:?}")),
            |v| Ok(Some(v)),
        )
    }

    /// A flag that must be there.
    pub(super) fn required<T: FromStr>(&mut self, name: &str) -> Result<T, String> {
        self.optional(name)?
            .ok_or_else(|| format!("--{name} is missing"))
    }

    /// A positive number that may be left out.
    pub(super) fn count(&mut self, name: &str, default: usize) -> Result<usize, String> {
        match self.optional(name)?.unwrap_or(default) {
            0 => Err(format!("--{name} must be at least 1")),
            count => Ok(count),
        }
    }

    /// Refuses flags that nobody took.
    pub(super) fn finish(&self) -> Result<(), String> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(unknown) => Err(format!("unknown flag --{unknown}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(line: &str) -> Result<Flags, String> {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        Flags::parse(&words)
    }

    #[test]
    fn flags_are_taken_by_name_and_what_is_left_is_refused() {
        let mut flags = flags("--records 5 --idempotent --topic t").expect("legal");
        assert_eq!(flags.required("records"), Ok(5));
        assert_eq!(flags.switch("idempotent"), Ok(true));
        assert_eq!(flags.switch("sink"), Ok(false));
        assert_eq!(flags.count("in-flight", 5), Ok(5));
        assert_eq!(flags.finish(), Err("unknown flag --topic".into()));
        assert_eq!(flags.required("topic"), Ok("t".to_owned()));
        assert_eq!(flags.finish(), Ok(()));
    }

    #[test]
    fn what_is_no_flag_missing_or_wrong_is_said() {
        assert!(flags("records").is_err());
        assert!(flags("--a 1 --a 2").is_err());
        let mut flags = flags("--records many --block 0 --sink yes").expect("legal");
        assert!(flags.required::<u64>("records").is_err());
        assert!(flags.count("block", 1).is_err());
        assert!(flags.switch("sink").is_err());
        assert!(flags.required::<u64>("topic").is_err());
    }
}
