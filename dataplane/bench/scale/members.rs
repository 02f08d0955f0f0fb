//! A member of each group, by the protocol of KIP-848. Members share connections and send heartbeats as often as the broker says.

use std::{net::SocketAddr, time::Duration};

use millrace_bench::{consumer::Consumer, population::group};
use millrace_wire::{
    StrBytes,
    messages::{
        ConsumerGroupHeartbeatRequest, GroupId, TopicName,
        consumer_group_heartbeat_request::TopicPartitions,
    },
};
use tokio::{task::JoinSet, time::sleep};

/// The topic of one partition that every group consumes.
pub(crate) const TOPIC: &str = "scale-groups";
/// Connections that members share.
const CONNECTIONS: usize = 10;
const REBALANCE_TIMEOUT_MS: i32 = 300_000;

/// The members, which leave off when this is dropped.
#[derive(Debug)]
pub(crate) struct Members(JoinSet<String>);

/// A member, as its group's coordinator sees it.
#[derive(Debug)]
struct Member {
    group: usize,
    epoch: i32,
    owned: Vec<TopicPartitions>,
}

impl Members {
    /// Lets a member join each of so many groups; all have their partition when this returns.
    pub(crate) async fn join(address: SocketAddr, groups: usize) -> Result<Self, String> {
        let mut joining = JoinSet::new();
        for worker in 0..CONNECTIONS.min(groups) {
            joining.spawn(async move {
                let connected = Consumer::connect(address, &format!("members-{worker}"), "").await;
                let mut connection = connected.map_err(|error| error.to_string())?;
                let mut members = Vec::new();
                let mut interval = Duration::from_secs(1);
                for group in (worker..groups).step_by(CONNECTIONS) {
                    let mut member = Member {
                        group,
                        epoch: 0,
                        owned: Vec::new(),
                    };
                    interval = member.beat(&mut connection).await?;
                    if member.owned.is_empty() {
                        return Err(format!("group {group} has not assigned its partition"));
                    }
                    // Confirms it.
                    member.beat(&mut connection).await?;
                    members.push(member);
                }
                Ok::<_, String>((connection, members, interval))
            });
        }
        let mut beating = JoinSet::new();
        while let Some(joined) = joining.join_next().await {
            let (connection, members, interval) = joined.map_err(|error| error.to_string())??;
            beating.spawn(keep_beating(connection, members, interval));
        }
        Ok(Self(beating))
    }

    /// # Errors
    /// A member has failed.
    pub(crate) fn must_run(&mut self) -> Result<(), String> {
        match self.0.try_join_next() {
            None => Ok(()),
            Some(ended) => Err(ended.unwrap_or_else(|error| error.to_string())),
        }
    }
}

/// Sends heartbeats, evenly over the interval, until one fails.
async fn keep_beating(
    mut connection: Consumer,
    mut members: Vec<Member>,
    interval: Duration,
) -> String {
    let pause = interval / u32::try_from(members.len()).unwrap_or(1).max(1);
    loop {
        for member in &mut members {
            sleep(pause).await;
            if let Err(error) = member.beat(&mut connection).await {
                return error;
            }
        }
    }
}

impl Member {
    /// Sends a heartbeat; gives when the next one is due.
    async fn beat(&mut self, connection: &mut Consumer) -> Result<Duration, String> {
        let name = group(self.group);
        let topics = (self.epoch == 0).then(|| vec![TopicName(text(TOPIC))]);
        let request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(GroupId(text(&name)))
            .with_member_id(text(&format!("{name}-member")))
            .with_member_epoch(self.epoch)
            .with_rebalance_timeout_ms(REBALANCE_TIMEOUT_MS)
            .with_subscribed_topic_names(topics)
            .with_topic_partitions(Some(self.owned.clone()));
        let answer = connection.heartbeat(&request).await;
        let answer = answer.map_err(|error| format!("the member of {name}: {error}"))?;
        self.epoch = answer.member_epoch;
        if let Some(assignment) = answer.assignment {
            let owned = assignment.topic_partitions.into_iter().map(|topic| {
                TopicPartitions::default()
                    .with_topic_id(topic.topic_id)
                    .with_partitions(topic.partitions)
            });
            self.owned = owned.collect();
        }
        let interval = u64::try_from(answer.heartbeat_interval_ms).unwrap_or(1);
        Ok(Duration::from_millis(interval))
    }
}

fn text(value: &str) -> StrBytes {
    StrBytes::from_string(value.to_owned())
}
