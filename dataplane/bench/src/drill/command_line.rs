//! A drill as a program: its command line and its exit code.

use std::{path::PathBuf, process::ExitCode};

use crate::command_line::{beside, broker_program, exit_code, from_callers_folder, mebibytes};

/// Where a drill works, with which broker, and where its results go: the options that every drill
/// has (`--work`, `--program`, `--json`).
#[derive(Debug, Clone)]
pub struct DrillFiles {
    /// The work folder.
    pub work: PathBuf,
    /// The broker.
    pub program: PathBuf,
    /// Also receives the results.
    pub json: Option<PathBuf>,
}

impl DrillFiles {
    /// Reads the command line of the drill `name`; `Ok(None)` if it asks for the usage. `option`
    /// takes an option of this drill's own and, from the iterator, its value. It returns `None` if
    /// there is no such option, or if the value is missing or not allowed.
    ///
    /// # Errors
    /// The option that is wrong, with the usage.
    pub fn parse(
        name: &str,
        usage: &str,
        mut arguments: impl Iterator<Item = String>,
        mut option: impl FnMut(&str, &mut dyn Iterator<Item = String>) -> Option<()>,
    ) -> Result<Option<Self>, String> {
        let mut files = Self {
            work: beside(&format!("../drill-{name}"))?,
            program: broker_program()?,
            json: None,
        };
        while let Some(argument) = arguments.next() {
            let mut path = || arguments.next().map(from_callers_folder);
            let accepted = match argument.as_str() {
                "--help" => return Ok(None),
                "--work" => path().map(|path| files.work = path),
                "--program" => path().map(|path| files.program = path),
                "--json" => path().map(|path| files.json = Some(path)),
                other => option(other, &mut arguments),
            };
            accepted
                .ok_or_else(|| format!("unknown option or wrong value: {argument}\n{usage}"))?;
        }
        Ok(Some(files))
    }
}

/// What the clients of a drill do, and which program is its bucket: the options that several drills have
/// (`--rate`, `--seed`, `--s3-server`).
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Bytes per second of all producers together.
    pub bytes_per_s: u64,
    /// Batches and faults follow from it.
    pub seed: u64,
    /// The program that is the bucket; by default one is built.
    pub s3_server: Option<PathBuf>,
}

impl LoadOptions {
    /// Without options: this rate, and any seed.
    #[must_use]
    pub fn new(bytes_per_s: u64) -> Self {
        Self {
            bytes_per_s,
            seed: millrace_time::SystemRandom::shared().next_u64(),
            s3_server: None,
        }
    }

    /// Takes one option and its value; `None` if it is not one of these, or its value is missing or not
    /// allowed.
    pub fn take(&mut self, option: &str, values: &mut dyn Iterator<Item = String>) -> Option<()> {
        match option {
            "--rate" => self.bytes_per_s = mebibytes(&values.next()?)?,
            "--seed" => self.seed = values.next()?.parse().ok()?,
            "--s3-server" => self.s3_server = Some(from_callers_folder(values.next()?)),
            _ => return None,
        }
        Some(())
    }
}

/// The `main` of the drill `name`: reads its command line with `parse` and runs it, or prints the
/// usage if that was asked for.
pub fn main<A>(
    name: &str,
    usage: &str,
    parse: impl FnOnce(std::iter::Skip<std::env::Args>) -> Result<Option<A>, String>,
    drill: impl FnOnce(&A) -> Result<(), String>,
) -> ExitCode {
    let done = parse(std::env::args().skip(1)).and_then(|arguments| match arguments {
        Some(arguments) => drill(&arguments),
        None => {
            println!("{usage}");
            Ok(())
        }
    });
    exit_code(&format!("drill:{name}"), done)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(line: &str) -> Result<Option<(DrillFiles, bool)>, String> {
        let mut quick = false;
        let arguments = line.split_whitespace().map(str::to_owned);
        let files = DrillFiles::parse("test", "usage", arguments, |option, _| {
            (option == "--quick").then(|| quick = true)
        });
        files.map(|files| files.map(|files| (files, quick)))
    }

    #[test]
    fn the_options_of_every_drill() {
        let (files, quick) = parse("--work /w --quick --program /p --json /j")
            .expect("legal")
            .expect("a drill");
        assert!(quick);
        assert_eq!(
            (files.work.as_path(), files.program.as_path()),
            (Path::new("/w"), Path::new("/p"))
        );
        assert_eq!(files.json.as_deref(), Some(Path::new("/j")));
        assert!(parse("--help").expect("legal").is_none());
    }

    #[test]
    fn the_options_of_a_load() {
        let mut load = LoadOptions::new(1);
        let mut values = ["3", "9", "/s"].map(str::to_owned).into_iter();
        for option in ["--rate", "--seed", "--s3-server"] {
            assert_eq!(load.take(option, &mut values), Some(()), "{option}");
        }
        assert_eq!((load.bytes_per_s, load.seed), (3 << 20, 9));
        assert_eq!(load.s3_server.as_deref(), Some(Path::new("/s")));
        assert_eq!(load.take("--rate", &mut values), None, "no value");
        assert_eq!(load.take("--fast", &mut values), None);
    }

    #[test]
    fn a_wrong_option_is_named() {
        for wrong in ["--work", "--fast"] {
            let error = parse(wrong).expect_err("wrong");
            assert_eq!(
                error,
                format!("unknown option or wrong value: {wrong}\nusage")
            );
        }
    }
}
