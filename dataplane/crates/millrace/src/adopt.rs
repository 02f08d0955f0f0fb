//! `millrace adopt`: makes storage agree that a broker refuses, after saying what that loses.

use std::process::ExitCode;

use millrace_broker::{
    FolderError, Seams,
    identity::{AdoptError, Adoption, prepare_adoption},
};

use tokio::runtime::Builder;

use crate::{broker::EXIT_IN_USE, command::AdoptOptions, configuration, runtime};

pub(crate) fn run(options: &AdoptOptions) -> ExitCode {
    let config = match configuration::load_or_exit(&options.broker) {
        Ok(config) => config,
        Err(code) => return code,
    };
    let runtime = match runtime::build_or_exit(Builder::new_multi_thread()) {
        Ok(runtime) => runtime,
        Err(code) => return code,
    };
    let adopted = runtime.block_on(async {
        let Some(adoption) = prepare_adoption(config, Seams::system()).await? else {
            println!("Nothing to adopt: metadata, write-ahead log and bucket belong together.");
            return Ok(());
        };
        print(&adoption);
        if options.yes {
            adoption.apply().await?;
            println!("Adopted. The next start serves what is left.");
        } else {
            println!("Nothing was changed. Run again with --yes to accept these losses.");
        }
        Ok(())
    });
    match adopted {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("millrace: {error}");
            match error {
                AdoptError::Folder(FolderError::InUse { .. }) => ExitCode::from(EXIT_IN_USE),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn print(adoption: &Adoption) {
    println!("Found: {}", adoption.reason);
    if adoption.losses.is_empty() {
        println!("Lost: nothing that metadata, write-ahead log or bucket know of.");
    }
    for loss in &adoption.losses {
        println!("Lost: {loss}");
    }
}
