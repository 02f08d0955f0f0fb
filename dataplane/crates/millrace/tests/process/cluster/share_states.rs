//! The state of share partitions, while brokers come and go.

use std::{collections::BTreeSet, time::Duration};

use millrace_client::{
    Admin, ErrorCode, TopicId,
    admin::{SharePartition, ShareState, ShareStateBatch},
};
use millrace_testkit::KafkaClient;
use millrace_wire::{StrBytes, messages::FindCoordinatorRequest};
use tokio::time::{sleep, timeout};

use super::harness::{Cluster, PARTITIONS, PATIENCE, TOPIC};

/// Key type of FindCoordinator.
const SHARE: i8 = 2;
const GROUP: &str = "g";

fn share(topic_id: TopicId, partition: i32) -> SharePartition<'static> {
    SharePartition {
        group_id: GROUP,
        topic_id,
        partition,
    }
}

/// Has a broker create the topic of share partitions.
async fn find_any(client: &mut KafkaClient) {
    let key = StrBytes::from_static_str("g:AAAAAAAAAAAAAAAAAAAAAQ:0");
    let request = FindCoordinatorRequest::default()
        .with_key_type(SHARE)
        .with_coordinator_keys(vec![key]);
    let finding = async {
        while client.call(6, &request).await.coordinators[0].error_code != 0 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, finding).await.expect("somebody leads it");
}

/// The broker that coordinates a share partition.
async fn coordinator(cluster: &Cluster, admin: &Admin, of: SharePartition<'_>) -> u32 {
    let finding = async {
        loop {
            for &node in cluster.brokers.keys() {
                let asked = i32::try_from(node).expect("few");
                if admin.read_share_state_summary(asked, of).await.is_ok() {
                    return node;
                }
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, finding).await.expect("somebody does")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_outlives_the_broker_that_keeps_it() {
    let settings = "share.coordinator.state.topic.num.partitions=4\nleader.balance.interval.ms=0";
    let mut cluster = Cluster::start_with([1, 2], settings).await;
    cluster.create_topic().await;
    let client = cluster.client();
    let admin = Admin::new(&client);
    let topics = admin.list_topics().await.expect("a broker answers");
    let topic = topics.iter().find(|topic| *topic.name == *TOPIC);
    let topic_id = topic.and_then(|topic| topic.id).expect("it has an id");
    find_any(&mut cluster.brokers[&1].client().await).await;
    let mut coordinators = BTreeSet::new();
    for partition in 0..PARTITIONS {
        let of = share(topic_id, partition);
        let node = coordinator(&cluster, &admin, of).await;
        coordinators.insert(node);
        let node = i32::try_from(node).expect("few");
        let initialized = admin.initialize_share_state(node, of, (1, 5)).await;
        initialized.expect("durable");
        let read = admin.read_share_state(node, of, 3).await.expect("durable");
        assert_eq!((read.state_epoch, read.start_offset), (1, 5));
        let written = admin.write_share_state(node, of, &change(partition)).await;
        written.expect("durable");
    }
    assert_eq!(coordinators, BTreeSet::from([1, 2]));
    cluster.kill_node(1);
    cluster.expire(1).await;
    let client = cluster.client();
    let admin = Admin::new(&client);
    for partition in 0..PARTITIONS {
        let of = share(topic_id, partition);
        assert_eq!(coordinator(&cluster, &admin, of).await, 2);
        let read = admin.read_share_state(2, of, 4).await.expect("loaded");
        assert_eq!(read.batches, change(partition).batches);
        let fenced = admin.write_share_state(2, of, &change(partition)).await;
        let fenced = fenced.expect_err("of a former leader");
        assert_eq!(fenced.code(), Some(ErrorCode::FENCED_LEADER_EPOCH));
    }
}

/// A write of the leader with epoch 3.
fn change(partition: i32) -> ShareState {
    let first_offset = i64::from(partition) + 10;
    let batch = ShareStateBatch {
        first_offset,
        last_offset: first_offset + 4,
        delivery_state: 2,
        delivery_count: 1,
    };
    ShareState {
        state_epoch: 1,
        leader_epoch: 3,
        start_offset: -1,
        batches: vec![batch],
    }
}
