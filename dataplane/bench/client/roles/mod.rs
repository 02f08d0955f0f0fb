//! Our client under loads that `millrace perf` does not have, each in a process of its own. One JSON
//! object on standard output.
//!
//! - `create BROKER TOPIC,… PARTITIONS REPLICAS`: topics, unless they exist;
//!   `delete BROKER TOPIC,…`
//! - `fill BROKER TOPIC PARTITIONS RECORDS RECORD_BYTES`: so many records to each partition of a new
//!   topic; the bytes of each
//! - `flow BROKER TOPIC SECONDS RECORDS`: KAFKA-7548's test
//! - `rate BROKER TOPIC,… PARTITIONS PRODUCERS RATE BURST_MS SECONDS WARMUP_SECONDS RECORD_BYTES
//!   LINGER_MS KEYS PARTITIONER`: producers at a fixed rate
//! - `stream BROKER TOPIC PARTITIONS RECORDS SLOW_PARTITIONS SLOW_MS`: streams with slow stages
//! - `proxy LISTEN TARGET DELAY_MS`: delays connections until it is killed

mod flow;
mod proxy;
mod rate;
mod stream;
mod topics;

use std::{error::Error, str::FromStr};

use millrace_client::{Client, ClientConfig};
use serde_json::Value;
use tokio::runtime::Builder;

/// Runs one role, named by the first argument, in this process.
pub(crate) fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let shown = runtime.block_on(play(arguments))?;
    println!("{shown}");
    Ok(())
}

async fn play(arguments: &[String]) -> Result<Value, Box<dyn Error>> {
    let text = |at: usize| arguments.get(at).map(String::as_str).unwrap_or_default();
    match text(0) {
        // They have clients of their own, or none.
        "rate" => return rate::rate(&rate::Load::parse(&arguments[1..])?).await,
        "proxy" => return proxy::proxy(text(1), text(2), number(text(3))?).await,
        _ => {}
    }
    let client = Client::new(ClientConfig::new(text(1))?);
    match text(0) {
        "create" => topics::create(&client, text(2), (number(text(3))?, number(text(4))?)).await,
        "delete" => topics::delete(&client, text(2)).await,
        "fill" => {
            let size = (number(text(3))?, number(text(4))?, number(text(5))?);
            topics::fill(&client, text(2), size).await
        }
        "flow" => flow::flow(&client, text(2), number(text(3))?, number(text(4))?).await,
        "stream" => {
            let backlog = (number(text(3))?, number(text(4))?);
            let slow = (number(text(5))?, number(text(6))?);
            stream::stream(&client, text(2), backlog, slow).await
        }
        role => Err(format!("no such role: {role:?}").into()),
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}
