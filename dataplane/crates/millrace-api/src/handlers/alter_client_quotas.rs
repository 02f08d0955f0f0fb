//! AlterClientQuotas: quotas are set and removed (KIP-546).

use std::{future::ready, sync::Arc};

use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    messages::{
        AlterClientQuotasRequest, AlterClientQuotasResponse,
        alter_client_quotas_request::{EntryData as AskedEntry, OpData},
        alter_client_quotas_response::{EntityData, EntryData},
    },
    service::BoxFuture,
};

use crate::{
    authorization::{Changed, Rights},
    call::{Call, Outcome, Taken, first_error},
    context::{Context, text},
    quota_changes::{AskedEntity, AskedQuotas},
    topics::Refused,
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: AlterClientQuotasRequest = decode(&call.request)?;
    let asked: Vec<AskedQuotas> = request.entries.iter().map(asked).collect();
    let reply = call.reply();
    let changing = change(context, context.rights(&call), asked, request.validate_only).await;
    Taken::later(async move {
        let entries: Vec<_> = changing.await.into_iter().map(entry).collect();
        let error = first_error(entries.iter().map(|entry| entry.error_code));
        let response = AlterClientQuotasResponse::default().with_entries(entries);
        reply.with(&response, error)
    })
}

/// What became of each entity.
type Changes = Vec<(AskedEntity, Result<(), Refused>)>;

/// Takes the changes into their queue.
async fn change(
    context: &Arc<Context>,
    rights: Rights,
    asked: Vec<AskedQuotas>,
    validate_only: bool,
) -> BoxFuture<'static, Changes> {
    if let Err(code) = rights.cluster(Operation::AlterConfigs) {
        let refused = Refused::new(code, code.to_string());
        let entities = asked.into_iter().map(|asked| asked.entity);
        let refused = entities.map(|entity| (entity, Err(refused.clone())));
        return Box::pin(ready(refused.collect()));
    }
    let own = Arc::clone(context);
    let change = async move {
        let changed = own.quota_changes.apply(asked, validate_only).await;
        if !validate_only {
            own.quotas.reconsider(own.now());
            changed.iter().for_each(|changed| audit(&rights, changed));
        }
        changed
    };
    context.security_changes.enqueue(change).await
}

/// Logs a change: `user=alice,client-id=<default>`.
fn audit(rights: &Rights, (entity, outcome): &(AskedEntity, Result<(), Refused>)) {
    let part = |(part, name): &(String, Option<String>)| {
        let name = name.as_deref().unwrap_or("<default>");
        format!("{part}={name}")
    };
    let name = entity.iter().map(part).collect::<Vec<_>>().join(",");
    let (error, _) = Refused::parts(outcome);
    let operation = Operation::AlterConfigs;
    rights.audit(operation, Changed::ClientQuotas, &name, error);
}

fn asked(entry: &AskedEntry) -> AskedQuotas {
    let quota = |op: &OpData| (op.key.to_string(), (!op.remove).then_some(op.value));
    // As in Kafka, the last name of a type holds.
    let mut entity = AskedEntity::new();
    for part in &entry.entity {
        let name = part.entity_name.as_ref().map(ToString::to_string);
        let named = entity.iter_mut().find(|(of, _)| *of == *part.entity_type);
        match named {
            Some((_, earlier)) => *earlier = name,
            None => entity.push((part.entity_type.to_string(), name)),
        }
    }
    AskedQuotas {
        entity,
        quotas: entry.ops.iter().map(quota).collect(),
    }
}

fn entry((entity, outcome): (AskedEntity, Result<(), Refused>)) -> EntryData {
    let (error, message) = Refused::parts(&outcome);
    let parts = entity.into_iter().map(|(part, name)| {
        EntityData::default()
            .with_entity_type(text(part))
            .with_entity_name(name.map(text))
    });
    EntryData::default()
        .with_error_code(error)
        .with_error_message(message)
        .with_entity(parts.collect())
}
