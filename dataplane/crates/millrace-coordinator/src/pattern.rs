//! Regular expressions that clients send.

use regex::{Regex, RegexBuilder};

use crate::config::{PATTERN_BYTES_MAX, PATTERN_COMPILED_BYTES_MAX};

/// Compiles a pattern that has to match the whole of a name.
///
/// # Errors
/// Why it cannot be used: it is not a regular expression, too long or too costly.
pub(crate) fn whole_match(pattern: &str) -> Result<Regex, String> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(format!("longer than {PATTERN_BYTES_MAX} bytes"));
    }
    let build = |text: &str| {
        let compiled = RegexBuilder::new(text)
            .size_limit(PATTERN_COMPILED_BYTES_MAX)
            .build();
        compiled.map_err(|error| error.to_string())
    };
    // By itself first: a stray parenthesis must not close the group around it.
    build(pattern)?;
    build(&format!(r"\A(?:{pattern})\z"))
}
