"use client";

import { Card, Code, Group, ScrollArea, Skeleton, Stack, Tabs, Text } from "@mantine/core";
import { CopyIcon } from "../shell/copy-icon.tsx";
import { BootstrapAddress } from "./bootstrap-address.tsx";
import { useCluster } from "./live.ts";
import { type Snippet, snippetsFor } from "./snippets.ts";

/** The address, and a working example for each client. */
export function Connect({ clusterId }: { clusterId: string }) {
  const { data: cluster } = useCluster(clusterId);
  if (!cluster) return <Skeleton h={240} radius="md" />;
  const bootstrap = cluster.status.endpoints[0]?.bootstrap_servers;
  if (!bootstrap) {
    return <Text className="quiet">The address appears when the cluster is running.</Text>;
  }
  const snippets = snippetsFor(bootstrap);
  return (
    <Stack gap="md">
      <BootstrapAddress address={bootstrap} />
      <Card>
        <Tabs defaultValue={snippets[0]?.client} variant="pills" keepMounted={false}>
          <Tabs.List mb="md">
            {snippets.map(({ client }) => (
              <Tabs.Tab key={client} value={client}>
                {client}
              </Tabs.Tab>
            ))}
          </Tabs.List>
          {snippets.map((snippet) => (
            <Tabs.Panel key={snippet.client} value={snippet.client}>
              <SnippetView snippet={snippet} />
            </Tabs.Panel>
          ))}
        </Tabs>
      </Card>
    </Stack>
  );
}

function SnippetView({ snippet }: { snippet: Snippet }) {
  return (
    <Stack gap="md">
      <Block title="Install the client" text={snippet.install} part="install" />
      <Block
        title={snippet.file ?? "Produce and consume a record"}
        text={snippet.code}
        part="code"
      />
      {snippet.run && <Block title="Run it" text={snippet.run} part="run" />}
    </Stack>
  );
}

function Block({ title, text, part }: { title: string; text: string; part: string }) {
  return (
    <div>
      <Group justify="space-between" mb={4}>
        <Text fz="sm" fw={600}>
          {title}
        </Text>
        <CopyIcon text={text} label={`Copy: ${title}`} />
      </Group>
      <ScrollArea type="auto" viewportProps={{ tabIndex: 0, "aria-label": title, role: "region" }}>
        <Code block data-snippet={part}>
          {text}
        </Code>
      </ScrollArea>
    </div>
  );
}
