"use client";

import { Anchor, Card, Group, Skeleton, Stack, Tabs, Text, Title } from "@mantine/core";
import { isInternalTopic } from "@millrace/domain";
import { useQuery } from "@tanstack/react-query";
import Link from "next/link";
import { useRouter } from "next/navigation";
import { statusOf, useTRPC } from "../api/client.tsx";
import { BrokerDown, useBrokerDown } from "../cluster/broker-down.tsx";
import { MessageBrowser } from "../record/message-browser.tsx";
import { useAllowed } from "../session/use-allowed.ts";
import { Empty } from "../shell/empty.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { TopicForm } from "./topic-form.tsx";
import { TopicSettingList } from "./topic-setting-list.tsx";

export type TopicTab = "messages" | "settings";

interface TopicPageProps {
  clusterId: string;
  topic: string;
  tab: TopicTab;
}

/** One topic: its records, and its settings. */
export function TopicPage({ clusterId, topic: name, tab }: TopicPageProps) {
  const router = useRouter();
  const topics = `/clusters/${clusterId}/topics`;
  const down = useBrokerDown(clusterId);
  const { data: topic, error } = useTopic(clusterId, name, !down);
  if (statusOf(error) === 404) {
    return (
      <Empty title="Topic not found" text="It was deleted, or its name is misspelled.">
        <Anchor component={Link} href={topics}>
          Back to topics
        </Anchor>
      </Empty>
    );
  }
  if (down && !topic) return <BrokerDown what={`Messages and settings of ${name}`} />;
  const path = `${topics}/${encodeURIComponent(name)}`;
  return (
    <Stack gap="md">
      <div>
        <Anchor component={Link} href={topics} fz="sm">
          Topics
        </Anchor>
        <Group gap="md" align="baseline">
          <Title order={2} fz="h4" ff="monospace" style={{ overflowWrap: "anywhere" }}>
            {name}
          </Title>
          {topic && (
            <Text fz="sm" className="quiet">
              {topic.partitions} {topic.partitions === 1 ? "partition" : "partitions"}
            </Text>
          )}
        </Group>
      </div>
      {error && <ProblemAlert error={error} title="Cannot load the topic" />}
      <Tabs
        value={tab}
        variant="pills"
        onChange={(next) => router.push(next === "settings" ? `${path}/settings` : path)}
      >
        <Tabs.List aria-label={`Topic ${name}`}>
          <Tabs.Tab value="messages">Messages</Tabs.Tab>
          {!isInternalTopic(name) && <Tabs.Tab value="settings">Settings</Tabs.Tab>}
        </Tabs.List>
        <Tabs.Panel value="messages" pt="md">
          {tab === "messages" && (topic || isInternalTopic(name)) && (
            <MessageBrowser clusterId={clusterId} topic={name} partitionCount={topic?.partitions} />
          )}
        </Tabs.Panel>
        <Tabs.Panel value="settings" pt="md">
          {tab === "settings" && <Settings clusterId={clusterId} name={name} />}
        </Tabs.Panel>
      </Tabs>
    </Stack>
  );
}

/** The API describes no internal topic; its records can be read all the same. */
function useTopic(clusterId: string, name: string, serves: boolean) {
  const trpc = useTRPC();
  return useQuery(
    trpc.topic.get.queryOptions(
      { cluster_id: clusterId, topic_name: name },
      { enabled: serves && !isInternalTopic(name) },
    ),
  );
}

function Settings({ clusterId, name }: { clusterId: string; name: string }) {
  const serves = !useBrokerDown(clusterId);
  const { data: topic } = useTopic(clusterId, name, serves);
  const mayWrite = useAllowed("topic:write");
  if (!topic) return <Skeleton h={240} radius="md" />;
  if (!mayWrite) return <TopicSettingList topic={topic} />;
  return (
    <Card>
      <TopicForm key={topic.name} clusterId={clusterId} topic={topic} />
    </Card>
  );
}
