//! DescribeClientQuotas: the quotas of the entities that a filter asks for (KIP-546).

use std::{collections::BTreeMap, sync::Arc};

use millrace_security::{
    acl::Operation,
    quota::{InvalidFilter, QuotaEntity, QuotaFilter, QuotaKind},
};
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{
        DescribeClientQuotasRequest, DescribeClientQuotasResponse,
        describe_client_quotas_response::{EntityData, EntryData, ValueData},
    },
};

use crate::{
    call::{Call, Outcome},
    context::{Context, text},
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: DescribeClientQuotasRequest = decode(&call.request)?;
    if let Err(code) = context.rights(&call).cluster(Operation::DescribeConfigs) {
        return call
            .reply()
            .now(&refusal(code, code.to_string()), code.code());
    }
    let parts = request.components.iter().map(|component| {
        let name = component._match.as_deref();
        (&*component.entity_type, component.match_type, name)
    });
    let filter = match QuotaFilter::new(parts, request.strict) {
        Ok(filter) => filter,
        Err(error) => {
            let code = code_of(&error);
            return call
                .reply()
                .now(&refusal(code, error.to_string()), code.code());
        }
    };
    let table = context.quota_changes.table();
    let entries = table.find(&filter).map(entry).collect();
    let response = DescribeClientQuotasResponse::default().with_entries(Some(entries));
    call.reply().now(&response, NONE)
}

fn code_of(error: &InvalidFilter) -> ErrorCode {
    match error {
        InvalidFilter::UnknownType(_) => ErrorCode::UnsupportedVersion,
        InvalidFilter::EmptyType
        | InvalidFilter::Twice(_)
        | InvalidFilter::ExactWithoutText
        | InvalidFilter::UnwantedText(_)
        | InvalidFilter::UnknownMatch(_)
        | InvalidFilter::IpWithOthers => ErrorCode::InvalidRequest,
    }
}

fn refusal(code: ErrorCode, message: String) -> DescribeClientQuotasResponse {
    DescribeClientQuotasResponse::default()
        .with_error_code(code.code())
        .with_error_message(Some(text(message)))
        .with_entries(None)
}

fn entry((entity, quotas): (&QuotaEntity, &BTreeMap<QuotaKind, f64>)) -> EntryData {
    let parts = entity.parts().map(|(part, name)| {
        EntityData::default()
            .with_entity_type(text(part.text()))
            .with_entity_name(name.text().map(text))
    });
    let values = quotas.iter().map(|(kind, value)| {
        ValueData::default()
            .with_key(text(kind.key()))
            .with_value(*value)
    });
    EntryData::default()
        .with_entity(parts.collect())
        .with_values(values.collect())
}
