//! AlterUserScramCredentials: users come, change their passwords and go (KIP-554).

use std::{collections::BTreeMap, sync::Arc};

use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    messages::{
        AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse,
        alter_user_scram_credentials_request::{ScramCredentialDeletion, ScramCredentialUpsertion},
        alter_user_scram_credentials_response::AlterUserScramCredentialsResult,
    },
};

use crate::{
    authorization::{Changed, Rights},
    call::{Call, Outcome, Taken, first_error},
    context::{Context, text},
    scram_changes::{AskedChange, NewPassword},
    topics::Refused,
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: AlterUserScramCredentialsRequest = decode(&call.request)?;
    let deletion = |deletion: &ScramCredentialDeletion| AskedChange {
        user: deletion.name.to_string(),
        mechanism: deletion.mechanism,
        new: None,
    };
    let upsertion = |upsertion: &ScramCredentialUpsertion| AskedChange {
        user: upsertion.name.to_string(),
        mechanism: upsertion.mechanism,
        new: Some(NewPassword {
            iterations: upsertion.iterations,
            salt: upsertion.salt.to_vec(),
            salted_password: upsertion.salted_password.to_vec(),
        }),
    };
    let deletions = request.deletions.iter().map(deletion);
    let asked: Vec<AskedChange> = deletions
        .chain(request.upsertions.iter().map(upsertion))
        .collect();
    let (context, reply) = (Arc::clone(context), call.reply());
    let rights = context.rights(&call);
    Taken::later(async move {
        let changed = change(&context, &rights, asked).await;
        let result = |(user, outcome): (String, Result<(), Refused>)| {
            let (error, message) = Refused::parts(&outcome);
            rights.audit(Operation::Alter, Changed::ScramCredential, &user, error);
            AlterUserScramCredentialsResult::default()
                .with_user(text(user))
                .with_error_code(error)
                .with_error_message(message)
        };
        let results: Vec<_> = changed.into_iter().map(result).collect();
        let error = first_error(results.iter().map(|result| result.error_code));
        let response = AlterUserScramCredentialsResponse::default().with_results(results);
        reply.with(&response, error)
    })
}

/// What became of each user.
async fn change(
    context: &Context,
    rights: &Rights,
    asked: Vec<AskedChange>,
) -> BTreeMap<String, Result<(), Refused>> {
    match rights.cluster(Operation::Alter) {
        Ok(()) => context.scram_changes.apply(asked).await,
        Err(code) => {
            let refused = Refused::new(code, code.to_string());
            let users = asked.into_iter().map(|change| change.user);
            users.map(|user| (user, Err(refused.clone()))).collect()
        }
    }
}
