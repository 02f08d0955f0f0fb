"use client";

import {
  Anchor,
  Button,
  Card,
  Code,
  Group,
  ScrollArea,
  SegmentedControl,
  Skeleton,
  Stack,
  Tabs,
  Text,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { Cluster } from "@millrace/contract";
import { INITIAL_CLUSTER_USER } from "@millrace/domain";
import Link from "next/link";
import { useState } from "react";
import { InitialUserDialog } from "../cluster-user/initial-user-dialog.tsx";
import { useAllowed } from "../session/use-allowed.ts";
import { CopyIcon } from "../shell/copy-icon.tsx";
import { BootstrapAddress } from "./bootstrap-address.tsx";
import { useCluster } from "./live.ts";
import { type Snippet, snippetsFor } from "./snippets.ts";

type Endpoint = Cluster["status"]["endpoints"][number];

/** The addresses, and a working example for each client. */
export function Connect({ clusterId }: { clusterId: string }) {
  const { data: cluster } = useCluster(clusterId);
  const [chosen, setChosen] = useState<string>();
  if (!cluster) return <Skeleton h={240} radius="md" />;
  const { endpoints } = cluster.status;
  const endpoint = endpoints.find(({ name }) => name === chosen) ?? endpoints[0];
  if (!endpoint) {
    return <Text className="quiet">The address appears when the cluster is running.</Text>;
  }
  return (
    <Stack gap="md">
      {endpoints.length > 1 && (
        <SegmentedControl
          aria-label="Endpoint"
          value={endpoint.name}
          onChange={setChosen}
          data={endpoints.map(({ name, protocol }) => ({ value: name, label: LABELS[protocol] }))}
          style={{ alignSelf: "flex-start" }}
        />
      )}
      <BootstrapAddress address={endpoint.bootstrap_servers} />
      {endpoint.protocol === "SASL_SSL" && <Trust clusterId={clusterId} />}
      <Examples endpoint={endpoint} key={endpoint.name} />
    </Stack>
  );
}

const LABELS: Record<Endpoint["protocol"], string> = {
  PLAINTEXT: "Without TLS",
  SASL_SSL: "TLS and password",
};

/** What a client needs to connect with TLS. */
function Trust({ clusterId }: { clusterId: string }) {
  const [opened, dialog] = useDisclosure(false);
  const mayWrite = useAllowed("user:write");
  return (
    <Card>
      <Stack gap="xs">
        <Text fz="sm">
          Clients check the broker&apos;s certificate against the CA certificate of this
          installation: save it as <Code>ca.pem</Code>. They sign in as a user of the cluster: put
          its name and password for <Code>USER</Code> and <Code>PASSWORD</Code> in the example.
        </Text>
        <Text fz="sm">
          The user <Code>{INITIAL_CLUSTER_USER}</Code> is a super user: ACLs do not limit it. Create
          other users under{" "}
          <Anchor
            component={Link}
            href={`/clusters/${clusterId}/access`}
            inherit
            underline="always"
          >
            Access
          </Anchor>
          . Without an ACL such a user can sign in, but its requests fail with “Topic authorization
          failed”:{" "}
          <Anchor
            component={Link}
            href={`/clusters/${clusterId}/access/acls`}
            inherit
            underline="always"
          >
            allow the client
          </Anchor>{" "}
          first.
        </Text>
        <Group gap="xs">
          <Button
            component="a"
            href={`/v1/clusters/${clusterId}/ca-certificate`}
            download="ca.pem"
            variant="default"
            size="xs"
          >
            Download CA certificate
          </Button>
          {mayWrite && (
            <Button variant="default" size="xs" onClick={dialog.open}>
              New password for {INITIAL_CLUSTER_USER}
            </Button>
          )}
        </Group>
      </Stack>
      <InitialUserDialog clusterId={clusterId} opened={opened} onClose={dialog.close} />
    </Card>
  );
}

function Examples({ endpoint }: { endpoint: Endpoint }) {
  const snippets = snippetsFor({
    bootstrap: endpoint.bootstrap_servers,
    tls: endpoint.protocol === "SASL_SSL",
  });
  return (
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
