//! `npm run drill:scale`: many topics and groups on one broker.
//!
//! Topics are created through the admin API, one record is written to each topic, and each group commits an
//! offset. Measured are the time to create, resident memory, the time to list all groups, the time from the start of
//! the process after `kill -9` until every partition and every group is served again, and how long a group of many members takes
//! until each has its partitions.

mod arguments;
mod members;

use std::{collections::BTreeMap, process::ExitCode, time::Duration};

use millrace_bench::{
    broker::{Home, Settings},
    drill::conclude,
};
use millrace_client::{
    Admin, Client, ClientConfig, Producer, ProducerConfig, ProducerRecord, TopicPartition,
    admin::{NewTopic, OffsetSpec, Offsets},
    consumer::CommittedOffset,
    transport::BrokerAddress,
};
use millrace_time::{SharedClock, SystemClock};
use serde_json::{Value, json};

use crate::arguments::{Arguments, USAGE};

/// Topics of one CreateTopics request.
const TOPICS_AT_ONCE: usize = 100;
/// A broker that takes longer for one request has failed the drill.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two questions whether everything is served again.
const POLL: Duration = Duration::from_millis(20);

/// The targets of a full run.
const CREATED_WITHIN: Duration = Duration::from_secs(60);
const RESIDENT_MAX: u64 = 1_536 << 20;
const SERVES_WITHIN: Duration = Duration::from_secs(15);
const LISTED_WITHIN: Duration = Duration::from_secs(1);
const SETTLED_WITHIN: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    millrace_bench::drill::main("scale", USAGE, Arguments::parse, drill)
}

fn drill(arguments: &Arguments) -> Result<(), String> {
    let partitions = arguments.topics * arguments.partitions;
    let settings = Settings {
        wal_bytes: 1 << 30,
        io_depth: 8,
        bucket: None,
        lines: format!("partitions.max={}\nlog.retention.ms=-1\n", partitions + 100),
    };
    let home = Home::create(&arguments.files.program, &arguments.files.work, &settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("starting a runtime: {error}"))?;
    let outcome = runtime.block_on(measure(arguments, &home));
    conclude(&home, 0, arguments.files.json.as_deref(), outcome)
}

async fn measure(arguments: &Arguments, home: &Home) -> Result<(Value, Vec<String>), String> {
    let clock = SystemClock::shared();
    let running = home.start_and_wait()?;
    let client = client(home);
    let admin = Admin::new(&client);
    let created = timed(&clock, create(&admin, arguments)).await?;
    let written = timed(&clock, write(&client, arguments)).await?;
    let committed = timed(&clock, commit(&admin, arguments)).await?;
    let listed = timed(&clock, list(&admin, arguments.groups)).await?;
    let resident = running.resident_bytes()?;
    running.kill_9()?;
    let started = clock.now();
    let running = home.start_and_wait()?;
    let accepts = clock.now() - started;
    all_served(&admin, arguments).await?;
    let serves = clock.now() - started;
    let resident_after = running.resident_bytes()?;
    let settled = settle(home, arguments).await?;
    let report = json!({
        "topics": arguments.topics,
        "partitions": arguments.topics * arguments.partitions,
        "groups": arguments.groups,
        "created_s": created.as_secs_f64(),
        "written_s": written.as_secs_f64(),
        "committed_s": committed.as_secs_f64(),
        "groups_listed_s": listed.as_secs_f64(),
        "resident_mib": resident >> 20,
        "restart_accepts_s": accepts.as_secs_f64(),
        "restart_serves_s": serves.as_secs_f64(),
        "resident_after_restart_mib": resident_after >> 20,
        "members": arguments.members,
        "members_settled_s": settled.as_secs_f64(),
    });
    let mut failures = Vec::new();
    let mut bound = |what: &str, is_met: bool| {
        if arguments.is_full && !is_met {
            failures.push(format!("{what} is past its target"));
        }
    };
    bound("the creation of the topics", created <= CREATED_WITHIN);
    bound("the listing of the groups", listed <= LISTED_WITHIN);
    bound("memory", resident.max(resident_after) <= RESIDENT_MAX);
    bound("the restart", serves <= SERVES_WITHIN);
    bound("the rebalance", settled <= SETTLED_WITHIN);
    Ok((report, failures))
}

/// The members consume the first topics, as many as have a partition for each.
async fn settle(home: &Home, arguments: &Arguments) -> Result<Duration, String> {
    let topics = arguments.members.div_ceil(arguments.partitions);
    let topics = topics.min(arguments.topics);
    let names: Vec<String> = (0..topics).map(topic).collect();
    let partitions = topics * arguments.partitions;
    members::settle(home.address(), arguments.members, &names, partitions).await
}

fn client(home: &Home) -> Client {
    let at = home.address();
    let mut config =
        ClientConfig::with_addresses(vec![BrokerAddress::new(&at.ip().to_string(), at.port())]);
    config.request_timeout = PATIENCE;
    Client::new(config)
}

async fn timed(
    clock: &SharedClock,
    work: impl Future<Output = Result<(), String>>,
) -> Result<Duration, String> {
    let started = clock.now();
    work.await?;
    Ok(clock.now() - started)
}

fn topic(number: usize) -> String {
    format!("scale-{number}")
}

async fn create(admin: &Admin, arguments: &Arguments) -> Result<(), String> {
    let partitions = i32::try_from(arguments.partitions).map_err(|error| error.to_string())?;
    let names: Vec<String> = (0..arguments.topics).map(topic).collect();
    for names in names.chunks(TOPICS_AT_ONCE) {
        let topics = names.iter();
        let topics: Vec<NewTopic> = topics
            .map(|name| NewTopic::new(name).partitions(partitions))
            .collect();
        let created = admin.create_topics(&topics).await;
        for (name, result) in created.map_err(|error| error.to_string())? {
            result.map_err(|error| format!("{name}: {error}"))?;
        }
    }
    Ok(())
}

/// A record for each topic, so that partitions have something to recover.
async fn write(client: &Client, arguments: &Arguments) -> Result<(), String> {
    let mut config = ProducerConfig::default();
    config.delivery_timeout = 2 * PATIENCE;
    let producer = Producer::new(client, config);
    let producer = producer.map_err(|error| error.to_string())?;
    let mut sent = Vec::with_capacity(arguments.topics);
    for number in 0..arguments.topics {
        let (topic, value) = (topic(number), number.to_string());
        let record = ProducerRecord::to(&topic).value(value.as_bytes());
        let ticket = producer.send(record).await;
        sent.push(ticket.map_err(|error| error.to_string())?);
    }
    for ticket in sent {
        ticket.await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn commit(admin: &Admin, arguments: &Arguments) -> Result<(), String> {
    for number in 0..arguments.groups {
        let partition = TopicPartition::new(&topic(number % arguments.topics), 0);
        let offsets = Offsets::from([(partition, CommittedOffset::new(0))]);
        let group = format!("group-{number}");
        let committed = admin.alter_group_offsets(&group, &offsets).await;
        for (_, result) in committed.map_err(|error| error.to_string())? {
            result.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

async fn list(admin: &Admin, expected: usize) -> Result<(), String> {
    let listed = admin
        .list_groups()
        .await
        .map_err(|error| error.to_string())?;
    match listed.len() == expected {
        true => Ok(()),
        false => Err(format!("{} groups of {expected} are listed", listed.len())),
    }
}

/// Waits until every partition tells where it ends and every group is listed.
async fn all_served(admin: &Admin, arguments: &Arguments) -> Result<(), String> {
    let partitions = (0..arguments.topics).flat_map(|number| {
        let indexes = 0..arguments.partitions;
        indexes.map(move |index| {
            let index = i32::try_from(index).unwrap_or(i32::MAX);
            (
                TopicPartition::new(&topic(number), index),
                OffsetSpec::Latest,
            )
        })
    });
    let wanted: BTreeMap<_, _> = partitions.collect();
    let ends = admin.list_offsets(wanted).await;
    for (partition, result) in ends.map_err(|error| error.to_string())? {
        result.map_err(|error| format!("{partition}: {error}"))?;
    }
    let clock = SystemClock::shared();
    let started = clock.now();
    loop {
        match list(admin, arguments.groups).await {
            Ok(()) => return Ok(()),
            Err(error) if clock.now() - started > PATIENCE => return Err(error),
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}
