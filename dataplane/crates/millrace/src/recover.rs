//! `millrace recover`: rebuilds a broker's metadata from the bucket, after saying what is missing.

use std::process::ExitCode;

use millrace_broker::{
    FolderError, Seams,
    recover::{RecoverError, RecoverOptions, recover},
};

use tokio::runtime::Builder;

use crate::{broker::EXIT_IN_USE, command, configuration, runtime};

pub(crate) fn run(options: &command::RecoverOptions) -> ExitCode {
    let config = match configuration::load_or_exit(&options.broker) {
        Ok(config) => config,
        Err(code) => return code,
    };
    let runtime = match runtime::build_or_exit(Builder::new_multi_thread()) {
        Ok(runtime) => runtime,
        Err(code) => return code,
    };
    let asked = RecoverOptions {
        apply: options.yes,
        at_ms: options.at,
    };
    match runtime.block_on(recover(&config, asked, Seams::system())) {
        Ok(report) if options.json => {
            let json = serde_json::to_string(&report).expect("a report is always JSON");
            println!("{json}");
            ExitCode::SUCCESS
        }
        Ok(report) => {
            print!("{report}");
            println!(
                "{}",
                if report.applied {
                    "Recovered. The next start serves it."
                } else {
                    "Nothing was changed. Run again with --yes to recover."
                }
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("millrace: {error}");
            match error {
                RecoverError::Folder(FolderError::InUse { .. }) => ExitCode::from(EXIT_IN_USE),
                _ => ExitCode::FAILURE,
            }
        }
    }
}
