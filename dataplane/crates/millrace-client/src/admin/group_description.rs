//! Groups and their members, of both protocols.

use bytes::Bytes;
use millrace_wire::messages::{
    ConsumerGroupDescribeRequest, DescribeGroupsRequest, consumer_group_describe_response,
    describe_groups_response,
};

use super::{Admin, group_id};
use crate::{
    consumer::assigned_partitions,
    error::{BrokerError, ErrorCode, RequestError},
    topic_partition::TopicPartition,
};

/// The type of groups of consumers.
const CONSUMER: &str = "consumer";

/// A group and its members.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupDescription {
    /// The group's id.
    pub id: String,
    /// For example `Stable`, `Empty`, `Dead`.
    pub state: String,
    /// `consumer` for consumers.
    pub protocol_type: String,
    /// The assignor, for example `range` or, of groups whose coordinator assigns, `uniform`.
    pub protocol: String,
    /// The members.
    pub members: Vec<GroupMember>,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupMember {
    /// Its id in the group.
    pub id: String,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<String>,
    /// `client.id`.
    pub client_id: String,
    /// Where it connects from.
    pub host: String,
    /// What it has; nothing where the group's members are no consumers.
    pub assignment: Vec<TopicPartition>,
}

impl Admin {
    /// State and members of a group.
    ///
    /// # Errors
    /// The coordinator could not answer, or refused.
    pub async fn describe_group(&self, group: &str) -> Result<GroupDescription, RequestError> {
        let classic = self.at_coordinator(group, |node| async move {
            let make = |_| DescribeGroupsRequest::default().with_groups(vec![group_id(group)]);
            let response = self.client.call_node(node, i16::MAX, make).await?;
            let described = response.groups.into_iter().next().unwrap_or_default();
            let message = described.error_message.as_deref();
            BrokerError::check(described.error_code, message)?;
            Ok(described)
        });
        let error = match classic.await {
            Ok(described) => return Ok(classic_description(described)),
            Err(error) => error,
        };
        if error.code() != Some(ErrorCode::GROUP_ID_NOT_FOUND) {
            return Err(error);
        }
        // It may be one whose coordinator assigns (KIP-848).
        match self.describe_consumer_group(group).await {
            Err(RequestError::Unsupported { .. }) => Err(error),
            described => described,
        }
    }

    async fn describe_consumer_group(&self, group: &str) -> Result<GroupDescription, RequestError> {
        let described = self.at_coordinator(group, |node| async move {
            let groups = vec![group_id(group)];
            let make = |_| ConsumerGroupDescribeRequest::default().with_group_ids(groups.clone());
            let response = self.client.call_node(node, i16::MAX, make).await?;
            let described = response.groups.into_iter().next().unwrap_or_default();
            let message = described.error_message.as_deref();
            BrokerError::check(described.error_code, message)?;
            Ok(described)
        });
        described.await.map(consumer_description)
    }
}

fn classic_description(group: describe_groups_response::DescribedGroup) -> GroupDescription {
    let is_consumer = group.protocol_type.as_str() == CONSUMER;
    let assigned = |bytes: Bytes| is_consumer.then(|| assigned_partitions(bytes)).flatten();
    let member = |member: describe_groups_response::DescribedGroupMember| GroupMember {
        id: member.member_id.to_string(),
        instance_id: member.group_instance_id.as_deref().map(ToOwned::to_owned),
        client_id: member.client_id.to_string(),
        host: member.client_host.to_string(),
        assignment: assigned(member.member_assignment).unwrap_or_default(),
    };
    GroupDescription {
        id: group.group_id.to_string(),
        state: group.group_state.to_string(),
        protocol_type: group.protocol_type.to_string(),
        protocol: group.protocol_data.to_string(),
        members: group.members.into_iter().map(member).collect(),
    }
}

fn consumer_description(
    group: consumer_group_describe_response::DescribedGroup,
) -> GroupDescription {
    let assigned = |topic: consumer_group_describe_response::TopicPartitions| {
        let name = topic.topic_name.to_string();
        let partitions = topic.partitions.into_iter();
        partitions.map(move |partition| TopicPartition::new(&name, partition))
    };
    let member = |member: consumer_group_describe_response::Member| GroupMember {
        id: member.member_id.to_string(),
        instance_id: member.instance_id.as_deref().map(ToOwned::to_owned),
        client_id: member.client_id.to_string(),
        host: member.client_host.to_string(),
        assignment: member
            .assignment
            .topic_partitions
            .into_iter()
            .flat_map(assigned)
            .collect(),
    };
    GroupDescription {
        id: group.group_id.to_string(),
        state: group.group_state.to_string(),
        protocol_type: CONSUMER.to_owned(),
        protocol: group.assignor_name.to_string(),
        members: group.members.into_iter().map(member).collect(),
    }
}
