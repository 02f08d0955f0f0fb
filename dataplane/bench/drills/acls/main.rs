//! `npm run drill:acls`: our authorizer and Kafka's `StandardAuthorizer` decide the same questions about
//! the same random rules. The first difference ends the drill.
//!
//! - `sets`: the rules and questions
//! - `kafka`: Kafka's authorizer, from Maven Central

mod kafka;
mod sets;

use std::{error::Error, net::IpAddr, process::ExitCode};

use fastrand::Rng;
use millrace_bench::command_line::{exit_code, positive};
use millrace_security::acl::{Authorizer, AuthorizerConfig, Client};

use crate::{
    kafka::KafkaAuthorizer,
    sets::{Question, SUPER_USER, Set},
};

const USAGE: &str = "\
usage: npm run drill:acls -- [--sets N] [--seed N]
  --sets N  number of random rule sets (10000)
  --seed N  which ones (1); printed with a difference";
const SETS: usize = 10_000;
const SEED: u64 = 1;

fn main() -> ExitCode {
    exit_code("drill:acls", go())
}

fn go() -> Result<(), Box<dyn Error>> {
    let Some((sets, seed)) = options(std::env::args().skip(1))? else {
        println!("{USAGE}");
        return Ok(());
    };
    let mut random = Rng::with_seed(seed);
    let mut kafka = KafkaAuthorizer::start()?;
    let (mut questions, mut allowed) = (0, 0);
    for number in 0..sets {
        let set = Set::random(&mut random);
        let authorizer = authorizer(&set)?;
        for (question, theirs) in set.questions.iter().zip(kafka.decide(&set)?) {
            let ours = decide(&authorizer, question)?;
            if ours != theirs {
                return Err(format!(
                    "seed {seed}, set {number}: ours says {ours}, Kafka {theirs}\n{question:#?}\n{set:#?}"
                )
                .into());
            }
            questions += 1;
            allowed += usize::from(ours);
        }
    }
    println!("{sets} rule sets, {questions} questions, {allowed} allowed by both; no difference");
    if allowed == 0 || allowed == questions {
        return Err("the questions are all answered alike: they compare nothing".into());
    }
    Ok(())
}

/// Nothing where help is asked for.
fn options(
    mut arguments: impl Iterator<Item = String>,
) -> Result<Option<(usize, u64)>, &'static str> {
    let (mut sets, mut seed) = (SETS, SEED);
    while let Some(argument) = arguments.next() {
        let value = arguments.next();
        match (argument.as_str(), value) {
            ("--help", _) => return Ok(None),
            ("--sets", Some(value)) => sets = positive(&value).ok_or(USAGE)?,
            ("--seed", Some(value)) => seed = value.parse().map_err(|_| USAGE)?,
            _ => return Err(USAGE),
        }
    }
    Ok(Some((sets, seed)))
}

fn authorizer(set: &Set) -> Result<Authorizer, Box<dyn Error>> {
    let mut config = AuthorizerConfig {
        allow_if_no_rule: set.allow_if_no_rule,
        ..AuthorizerConfig::default()
    };
    if set.has_super_user {
        config.super_users.insert(SUPER_USER.parse()?);
    }
    Ok(Authorizer::new(config, set.rules.iter().cloned()))
}

fn decide(authorizer: &Authorizer, question: &Question) -> Result<bool, Box<dyn Error>> {
    let host = question.host.parse::<IpAddr>()?.to_canonical().to_string();
    let client = Client {
        principal: question.principal,
        host: &host,
    };
    let (operation, kind) = (question.operation, question.resource_type);
    Ok(match question.name {
        Some(name) => authorizer.allows(client, operation, kind, name),
        None => authorizer.allows_any(client, operation, kind),
    })
}
