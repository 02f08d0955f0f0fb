//! DescribeUserScramCredentials: which users there are, without their secrets (KIP-554).

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use millrace_security::{acl::Operation, credentials::ScramHash};
use millrace_wire::{
    decode,
    error_code::ErrorCode,
    messages::{
        DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse,
        describe_user_scram_credentials_response::{
            CredentialInfo, DescribeUserScramCredentialsResult,
        },
    },
};

use crate::{
    call::{Call, Outcome, first_error},
    context::{Context, text},
    topics::Refused,
};

type Credentials = Vec<(ScramHash, u32)>;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: DescribeUserScramCredentialsRequest = decode(&call.request)?;
    if let Err(code) = context.rights(&call).cluster(Operation::Describe) {
        let response = DescribeUserScramCredentialsResponse::default()
            .with_error_code(code.code())
            .with_error_message(Some(text(code.to_string())));
        return call.reply().now(&response, code.code());
    }
    let users = context.scram_changes.users();
    let found: BTreeMap<String, Result<Credentials, Refused>> = match request.users {
        // Nobody in particular is everybody.
        Some(asked) if !asked.is_empty() => {
            let mut times: HashMap<String, usize> = HashMap::new();
            for user in asked {
                *times.entry(user.name.to_string()).or_default() += 1;
            }
            let one = |(name, times): (String, usize)| {
                let found = find(times, users.describe(Some(&name)));
                (name, found)
            };
            times.into_iter().map(one).collect()
        }
        _ => {
            let all = users.describe(None).into_iter();
            all.map(|(name, credentials)| (name, Ok(credentials)))
                .collect()
        }
    };
    let results: Vec<_> = found.into_iter().map(result).collect();
    let error = first_error(results.iter().map(|result| result.error_code));
    let response = DescribeUserScramCredentialsResponse::default().with_results(results);
    call.reply().now(&response, error)
}

fn find(times: usize, found: Vec<(String, Credentials)>) -> Result<Credentials, Refused> {
    if times > 1 {
        let message =
            "Cannot describe SCRAM credentials for the same user twice in a single request";
        return Err(Refused::new(ErrorCode::DuplicateResource, message));
    }
    let found = found.into_iter().next().map(|(_, credentials)| credentials);
    found.ok_or_else(|| {
        let message = "Attempt to describe a user credential that does not exist";
        Refused::new(ErrorCode::ResourceNotFound, message)
    })
}

fn result(
    (user, found): (String, Result<Credentials, Refused>),
) -> DescribeUserScramCredentialsResult {
    let (error, message) = Refused::parts(&found);
    let info = |(hash, iterations): (ScramHash, u32)| {
        CredentialInfo::default()
            .with_mechanism(hash.code())
            .with_iterations(i32::try_from(iterations).unwrap_or(i32::MAX))
    };
    DescribeUserScramCredentialsResult::default()
        .with_user(text(user))
        .with_error_code(error)
        .with_error_message(Some(message.unwrap_or_default()))
        .with_credential_infos(found.unwrap_or_default().into_iter().map(info).collect())
}
