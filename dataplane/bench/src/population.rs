//! Topics and groups in large numbers, through the admin API.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use futures_util::{StreamExt, TryStreamExt, stream};
use millrace_client::{
    Admin, Client, ClientConfig, TopicPartition,
    admin::{NewTopic, OffsetSpec, Offsets},
    consumer::CommittedOffset,
    transport::BrokerAddress,
};
use millrace_time::SystemClock;

/// Topics of one CreateTopics request.
const TOPICS_AT_ONCE: usize = 100;
/// Offsets that are committed at the same time.
const COMMITS_AT_ONCE: usize = 32;
/// A broker that takes longer for one request has failed.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two questions whether everything is served again.
const POLL: Duration = Duration::from_millis(20);

/// So many topics, partitions and groups on one broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Population {
    /// Topics.
    pub topics: usize,
    /// Partitions of each topic.
    pub partitions: usize,
    /// Groups that have committed an offset.
    pub groups: usize,
}

/// The name of a topic by its number.
#[must_use]
pub fn topic(number: usize) -> String {
    format!("scale-{number}")
}

/// The name of a group by its number.
#[must_use]
pub fn group(number: usize) -> String {
    format!("group-{number}")
}

/// A client that waits long enough for requests about everything there is.
#[must_use]
pub fn client(address: SocketAddr) -> Client {
    let mut config = ClientConfig::with_addresses(vec![BrokerAddress::new(
        &address.ip().to_string(),
        address.port(),
    )]);
    config.request_timeout = PATIENCE;
    Client::new(config)
}

impl Population {
    /// Creates the topics.
    ///
    /// # Errors
    /// The broker refuses one.
    pub async fn create_topics(&self, admin: &Admin) -> Result<(), String> {
        let partitions = i32::try_from(self.partitions).map_err(|error| error.to_string())?;
        let names: Vec<String> = (0..self.topics).map(topic).collect();
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

    /// Commits an offset for each group.
    ///
    /// # Errors
    /// The broker refuses one.
    pub async fn commit_offsets(&self, admin: &Admin) -> Result<(), String> {
        let commits = (0..self.groups).map(|number| self.commit_offset(admin, number));
        let commits = stream::iter(commits).buffer_unordered(COMMITS_AT_ONCE);
        commits.try_collect().await
    }

    async fn commit_offset(&self, admin: &Admin, number: usize) -> Result<(), String> {
        let partition = TopicPartition::new(&topic(number % self.topics), 0);
        let offsets = Offsets::from([(partition, CommittedOffset::new(0))]);
        let committed = admin.alter_group_offsets(&group(number), &offsets).await;
        for (_, result) in committed.map_err(|error| error.to_string())? {
            result.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Lists the groups.
    ///
    /// # Errors
    /// One is missing.
    pub async fn list_groups(&self, admin: &Admin) -> Result<(), String> {
        let listed = admin.list_groups().await;
        let listed = listed.map_err(|error| error.to_string())?;
        match listed.len() == self.groups {
            true => Ok(()),
            false => Err(format!(
                "{} groups of {} are listed",
                listed.len(),
                self.groups
            )),
        }
    }

    /// Waits until every partition tells where it ends and every group is listed.
    ///
    /// # Errors
    /// A partition is not served, or a group is not listed for long.
    pub async fn all_served(&self, admin: &Admin) -> Result<(), String> {
        let partitions = (0..self.topics).flat_map(|number| {
            let indexes = 0..self.partitions;
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
            match self.list_groups(admin).await {
                Ok(()) => return Ok(()),
                Err(error) if clock.now() - started > PATIENCE => return Err(error),
                Err(_) => tokio::time::sleep(POLL).await,
            }
        }
    }
}
