//! ListTransactions (KIP-664, KIP-994, KIP-1152): the transactions that this broker coordinates.

use std::{sync::Arc, time::Duration};

use millrace_coordinator::{TransactionFilter, TransactionState};
use millrace_security::acl::{Operation, ResourceType};
use millrace_wire::{
    decode,
    error_code::NONE,
    messages::{
        ListTransactionsRequest, ListTransactionsResponse, ProducerId, TransactionalId,
        list_transactions_response::TransactionState as Listed,
    },
};

use crate::{
    call::{Call, Outcome},
    code,
    context::{Context, text},
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: ListTransactionsRequest = decode(&call.request)?;
    let reply = call.reply();
    let rights = context.rights(&call);
    let (mut states, mut unknown) = (Vec::new(), Vec::new());
    for name in request.state_filters {
        match TransactionState::of_name(&name) {
            Some(state) => states.push(state),
            None => unknown.push(name),
        }
    }
    let filter = TransactionFilter {
        states,
        producer_ids: request.producer_id_filters.iter().map(|id| id.0).collect(),
        longer_than: u64::try_from(request.duration_filter)
            .ok()
            .map(Duration::from_millis),
        id_pattern: request
            .transactional_id_pattern
            .map(|pattern| pattern.to_string()),
    };
    let response = ListTransactionsResponse::default();
    if filter.states.is_empty() && !unknown.is_empty() {
        let response = response.with_unknown_state_filters(unknown);
        return reply.now(&response, NONE);
    }
    let listed = match context.transactions.list(&filter) {
        Ok(listed) => listed,
        Err(error) => {
            let code = code::of_transaction(&error).code();
            return reply.now(&response.with_error_code(code), code);
        }
    };
    let (operation, kind) = (Operation::Describe, ResourceType::TransactionalId);
    let listed = listed
        .into_iter()
        .filter(|listed| rights.allows_quietly(operation, kind, &listed.transactional_id))
        .map(|listed| {
            Listed::default()
                .with_transactional_id(TransactionalId(text(listed.transactional_id)))
                .with_producer_id(ProducerId(listed.producer_id))
                .with_transaction_state(text(listed.state.name()))
        });
    let response = response
        .with_unknown_state_filters(unknown)
        .with_transaction_states(listed.collect());
    reply.now(&response, NONE)
}
