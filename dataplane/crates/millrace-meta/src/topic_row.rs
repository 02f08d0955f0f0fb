//! A topic's row, which every database has in the same form.

use std::collections::BTreeMap;

use millrace_model::{TopicId, TopicName};
use uuid::Uuid;

use crate::{StoreFailure, Topic};

pub(crate) fn configs_to_sql(configs: &BTreeMap<String, String>) -> String {
    serde_json::to_string(configs).expect("a map of texts is always JSON")
}

fn configs_from_sql(text: &str) -> Result<BTreeMap<String, String>, StoreFailure> {
    serde_json::from_str(text)
        .map_err(|error| StoreFailure::Corrupt(format!("a topic's configs: {error}")))
}

pub(crate) fn topic_from_row(
    (id, name, configs): (Vec<u8>, String, String),
) -> Result<Topic, StoreFailure> {
    let corrupt = |what: String| StoreFailure::Corrupt(format!("a topic: {what}"));
    Ok(Topic {
        id: TopicId(Uuid::from_slice(&id).map_err(|error| corrupt(error.to_string()))?),
        name: TopicName::new(&name).map_err(|error| corrupt(error.to_string()))?,
        configs: configs_from_sql(&configs)?,
        partitions: Vec::new(),
    })
}
