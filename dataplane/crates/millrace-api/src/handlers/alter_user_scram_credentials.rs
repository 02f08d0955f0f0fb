//! AlterUserScramCredentials: users come, change their passwords and go (KIP-554).

use std::{collections::BTreeMap, future::ready, sync::Arc};

use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    messages::{
        AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse,
        alter_user_scram_credentials_request::{ScramCredentialDeletion, ScramCredentialUpsertion},
        alter_user_scram_credentials_response::AlterUserScramCredentialsResult,
    },
    service::BoxFuture,
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
    let reply = call.reply();
    let changing = change(context, context.rights(&call), asked).await;
    Taken::later(async move {
        let result = |(user, outcome): (String, Result<(), Refused>)| {
            let (error, message) = Refused::parts(&outcome);
            AlterUserScramCredentialsResult::default()
                .with_user(text(user))
                .with_error_code(error)
                .with_error_message(message)
        };
        let results: Vec<_> = changing.await.into_iter().map(result).collect();
        let error = first_error(results.iter().map(|result| result.error_code));
        let response = AlterUserScramCredentialsResponse::default().with_results(results);
        reply.with(&response, error)
    })
}

/// Takes the changes into their queue; resolves with what became of each user.
async fn change(
    context: &Context,
    rights: Rights,
    asked: Vec<AskedChange>,
) -> BoxFuture<'static, BTreeMap<String, Result<(), Refused>>> {
    if let Err(code) = rights.cluster(Operation::Alter) {
        let refused = Refused::new(code, code.to_string());
        let users = asked.into_iter().map(|change| change.user);
        let refused = users.map(|user| (user, Err(refused.clone())));
        return Box::pin(ready(refused.collect()));
    }
    let changes = Arc::clone(&context.scram_changes);
    let change = async move {
        let changed = changes.apply(asked).await;
        for (user, outcome) in &changed {
            let (error, _) = Refused::parts(outcome);
            rights.audit(Operation::Alter, Changed::ScramCredential, user, error);
        }
        changed
    };
    context.security_changes.enqueue(change).await
}
