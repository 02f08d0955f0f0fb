//! DescribeConfigs: configurations of topics, of this broker, of groups and of subscriptions to client metrics, with the
//! source of each value.

use std::sync::Arc;

use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    messages::{
        DescribeConfigsRequest, DescribeConfigsResponse,
        describe_configs_request::DescribeConfigsResource,
        describe_configs_response::{
            DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
        },
    },
};

use crate::{
    authorization::Rights,
    call::{Call, Outcome, first_error},
    catalogue::{self, Entry, Synonym},
    config_resource::{self, Resource},
    context::{Context, text},
    resource_configs::ResourceKind,
    topics::Refused,
};

/// The first version that tells types and explanations (KIP-569).
const FIRST_WITH_TYPES: i16 = 3;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: DescribeConfigsRequest = decode(&call.request)?;
    let wants = Wants {
        synonyms: request.include_synonyms,
        types: call.version() >= FIRST_WITH_TYPES,
        documentation: request.include_documentation,
    };
    let rights = context.rights(&call);
    let results: Vec<_> = request
        .resources
        .iter()
        .map(|resource| describe((context, &rights), resource, wants))
        .collect();
    let error = first_error(results.iter().map(|result| result.error_code));
    call.reply().now(
        &DescribeConfigsResponse::default().with_results(results),
        error,
    )
}

#[derive(Debug, Clone, Copy)]
struct Wants {
    synonyms: bool,
    types: bool,
    documentation: bool,
}

fn describe(
    (context, rights): (&Context, &Rights),
    resource: &DescribeConfigsResource,
    wants: Wants,
) -> DescribeConfigsResult {
    let (kind, name) = (resource.resource_type, &resource.resource_name);
    let allowed = config_resource::check(rights, Operation::DescribeConfigs, kind, name);
    let entries = allowed.and_then(|()| find(context, resource));
    let (error, message) = Refused::worded_parts(&entries);
    let is_wanted = |entry: &Entry| match &resource.configuration_keys {
        None => true,
        Some(keys) => keys.is_empty() || keys.iter().any(|key| key.as_str() == entry.name),
    };
    let entries = entries.unwrap_or_default().into_iter().filter(is_wanted);
    DescribeConfigsResult::default()
        .with_error_code(error)
        .with_error_message(Some(message.unwrap_or_default()))
        .with_resource_type(resource.resource_type)
        .with_resource_name(resource.resource_name.clone())
        .with_configs(entries.map(|entry| show(entry, wants)).collect())
}

fn find(context: &Context, resource: &DescribeConfigsResource) -> Result<Vec<Entry>, Refused> {
    let found = Resource::find(context, resource.resource_type, &resource.resource_name)?;
    let settings = context.settings.settings();
    Ok(match found {
        Resource::Topic(topic) => catalogue::topic(&topic.config, &topic.overrides, &settings),
        Resource::Broker(scope) => catalogue::broker(&settings, scope),
        Resource::Named(ResourceKind::Group, name) => {
            let configs = context.resource_configs.of(ResourceKind::Group, &name);
            catalogue::group(
                &configs,
                context.groups.config().of_groups.limits(),
                &settings,
            )
        }
        Resource::Named(kind @ ResourceKind::ClientMetrics, name) => {
            catalogue::client_metrics(&context.resource_configs.of(kind, &name))
        }
    })
}

fn show(entry: Entry, wants: Wants) -> DescribeConfigsResourceResult {
    let synonym = |synonym: Synonym| {
        DescribeConfigsSynonym::default()
            .with_name(text(synonym.name))
            .with_value(synonym.value.map(text))
            .with_source(synonym.source as i8)
    };
    let shown = DescribeConfigsResourceResult::default()
        .with_name(text(entry.name))
        .with_value(entry.value.map(text))
        .with_read_only(entry.is_read_only)
        .with_config_source(entry.source as i8)
        .with_is_sensitive(entry.is_sensitive);
    let shown = match wants.synonyms {
        true => shown.with_synonyms(entry.synonyms.into_iter().map(synonym).collect()),
        false => shown,
    };
    if !wants.types {
        return shown;
    }
    let documentation = entry.documentation.filter(|_| wants.documentation);
    shown
        .with_config_type(entry.kind as i8)
        .with_documentation(documentation.map(text))
}
