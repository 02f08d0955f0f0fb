import { Card, Stack, Table, Text, Title } from "@mantine/core";
import type { CatchUp } from "@millrace/contract";
import type { NetworkTier } from "@millrace/domain";
import { exactly } from "../format/amount.ts";
import { bytes, int64 } from "../format/quantity.ts";
import { duration } from "../format/time.ts";

type Direction = CatchUp["network"]["ingress"];

/** By priority, highest first. */
const TIER_WORDS: Record<NetworkTier, { title: string; text: string }> = {
  wal_upload: { title: "Producers and uploads", text: "never wait for others" },
  tail_read: { title: "Tail reads", text: "consumers that are up to date" },
  catch_up_miss: { title: "Catch-up reads", text: "consumers that are behind" },
  prefetch: { title: "Prefetch", text: "blocks that will be read next" },
  compaction: { title: "Compaction", text: "merges objects; has a small guaranteed share" },
};

/** Network use and waits, by priority. */
export function NetworkCard(props: { title: string; text: string; direction: Direction }) {
  const { title, text, direction } = props;
  const baseline = direction.baseline_bytes_per_second;
  return (
    <Card component="section" aria-label={title} padding={0}>
      <Stack gap={2} px="lg" pt="lg" pb="sm">
        <Title order={2} fz="h4">
          {title}
        </Title>
        <Text fz="sm" className="quiet">
          {text}{" "}
          {baseline === null
            ? "Unlimited."
            : `Baseline: ${exactly("bytes_per_second", Number(baseline))}.`}
        </Text>
      </Stack>
      <Table.ScrollContainer
        minWidth={460}
        scrollAreaProps={{
          viewportProps: { tabIndex: 0, role: "region", "aria-label": `${title} by tier` },
        }}
      >
        <Table horizontalSpacing="lg" verticalSpacing={8}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Tier, by priority</Table.Th>
              <Table.Th ta="right">Bytes</Table.Th>
              <Table.Th ta="right">Total wait</Table.Th>
              <Table.Th ta="right">Waiting now</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {direction.tiers.map(({ tier, bytes: moved, waited_seconds, waiting }) => (
              <Table.Tr key={tier} className="number">
                <Table.Td>
                  <Text fz="sm" fw={600}>
                    {TIER_WORDS[tier].title}
                  </Text>
                  <Text fz="xs" className="quiet">
                    {TIER_WORDS[tier].text}
                  </Text>
                </Table.Td>
                <Table.Td ta="right">{bytes(Number(moved))}</Table.Td>
                <Table.Td ta="right">{waitText(waited_seconds)}</Table.Td>
                <Table.Td ta="right">{waiting}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Card>
  );
}

/** Requests to object storage, by operation and status; a folder on this machine bills none. */
export function BucketCard(props: { calls: CatchUp["bucket_calls"]; billed: boolean }) {
  const { calls, billed } = props;
  return (
    <Card component="section" aria-label="Object storage requests" padding={0}>
      <Stack gap={2} px="lg" pt="lg" pb="sm">
        <Title order={2} fz="h4">
          Object storage requests
        </Title>
        <Text fz="sm" className="quiet">
          {billed && "Each request is billed. "}Failed requests are retried and not visible to
          clients.
        </Text>
      </Stack>
      {calls.length === 0 ? (
        <Text fz="sm" className="quiet" px="lg" pb="lg">
          None since the broker started.
        </Text>
      ) : (
        <Table horizontalSpacing="lg" verticalSpacing={8}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Operation</Table.Th>
              <Table.Th>Status</Table.Th>
              <Table.Th ta="right">Requests</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {calls.map(({ operation, status, calls: count }) => (
              <Table.Tr key={`${operation} ${status}`} className="number">
                <Table.Td ff="monospace">{operation}</Table.Td>
                <Table.Td>{statusText(status)}</Table.Td>
                <Table.Td ta="right">{int64(count)}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
    </Card>
  );
}

/** `given_up` → `given up`. */
function statusText(status: string): string {
  return status.replaceAll("_", " ");
}

/** Short waits count too: they add up over many requests. */
function waitText(seconds: number): string {
  if (seconds > 0 && seconds < 10) return `${seconds.toFixed(2)} s`;
  return duration(seconds);
}
