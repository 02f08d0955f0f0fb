//! What the command lines of the benchmarks and drills have in common.

use std::{
    fmt::Display,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// The exit code of the program `name`, such as `bench:write`; prints the error if it failed.
#[must_use]
pub fn exit_code(name: &str, done: Result<(), impl Display>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A file in the folder that this program lies in, which is the build's.
///
/// # Errors
/// The system does not say where this program lies.
pub fn beside(name: &str) -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = program.parent();
    Ok(folder.map_or_else(PathBuf::new, |folder| folder.join(name)))
}

/// The broker that is to be driven: what `MILLRACE_BROKER_BIN` names, or the one beside this
/// program.
///
/// # Errors
/// As [`beside`].
pub fn broker_program() -> Result<PathBuf, String> {
    std::env::var_os("MILLRACE_BROKER_BIN").map_or_else(|| beside("millrace"), |at| Ok(at.into()))
}

/// npm runs these programs in another folder than it was called in, and says which that was. The
/// path is absolute where the system can tell, since brokers are told it.
#[must_use]
pub fn from_callers_folder(path: impl AsRef<Path>) -> PathBuf {
    let folder = std::env::var_os("INIT_CWD").map_or_else(PathBuf::new, PathBuf::from);
    let path = folder.join(path);
    std::path::absolute(&path).unwrap_or(path)
}

/// A whole number above 0.
#[must_use]
pub fn positive(text: &str) -> Option<usize> {
    text.parse().ok().filter(|&number| number > 0)
}

/// So many MiB, above 0 and below 2⁵⁰ bytes, in bytes.
#[must_use]
pub fn mebibytes(text: &str) -> Option<u64> {
    let number = positive(text).filter(|&number| number < 1 << 30)?;
    Some((number as u64) << 20)
}

/// `4`, `4GiB` or `0.5`: so many GiB, in bytes.
#[must_use]
pub fn gibibytes(text: &str) -> Option<u64> {
    let number = text.trim_end_matches("GiB").parse::<f64>().ok()?;
    let bytes = number * f64::from(1 << 30);
    (1e6..1e15).contains(&bytes).then_some(bytes as u64)
}

/// A time of at most a day, given in units of so many seconds.
#[must_use]
pub fn time(text: &str, unit_seconds: f64) -> Option<Duration> {
    let seconds = text.parse::<f64>().ok()? * unit_seconds;
    let sensible = (0.0..=86_400.0).contains(&seconds);
    sensible.then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_their_units() {
        assert_eq!(
            (positive("7"), positive("0"), positive("x")),
            (Some(7), None, None)
        );
        assert_eq!(mebibytes("3"), Some(3 << 20));
        assert_eq!((mebibytes("0"), mebibytes("-1")), (None, None));
        assert_eq!(gibibytes("4GiB"), Some(4 << 30));
        assert_eq!(gibibytes("0.5"), Some(1 << 29));
        assert_eq!((gibibytes("much"), gibibytes("-1")), (None, None));
        assert_eq!(time("0.5", 60.0), Some(Duration::from_secs(30)));
        assert_eq!((time("-1", 1.0), time("NaN", 1.0)), (None, None));
    }

    #[test]
    fn paths_are_absolute() {
        assert!(from_callers_folder("somewhere").is_absolute());
        assert_eq!(from_callers_folder("/there"), Path::new("/there"));
    }
}
