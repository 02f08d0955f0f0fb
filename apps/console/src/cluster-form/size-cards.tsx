"use client";

import { Group, Radio, SimpleGrid, Stack, Text } from "@mantine/core";
import {
  awsSizing,
  CLUSTER_SIZE_NAMES,
  type ClusterProvider,
  type ClusterSize,
  sizingOf,
} from "@millrace/domain";
import { usd } from "../format/money.ts";
import { bytes } from "../format/quantity.ts";
import { KNOB_WORDS } from "../tuning/knobs.ts";

interface SizeCardsProps {
  value: ClusterSize;
  provider: ClusterProvider;
  /** What a size costs a month with its usual volume; nothing where it costs nothing. */
  monthly: (size: ClusterSize) => number | undefined;
  onChange: (size: ClusterSize) => void;
  /** Of a cluster that exists on this machine: its write-ahead log, which no change of the size resizes. */
  walBytes?: number | undefined;
}

/** The sizes with their resources at the provider. */
export function SizeCards({ value, provider, monthly, onChange, walBytes }: SizeCardsProps) {
  return (
    <Radio.Group label="Size" value={value} onChange={(size) => onChange(size as ClusterSize)}>
      <SimpleGrid cols={{ base: 1, sm: 3 }} mt="sm">
        {CLUSTER_SIZE_NAMES.map((size) => (
          <SizeCard
            key={size}
            size={size}
            facts={factsOf(size, provider, walBytes)}
            monthly={monthly(size)}
          />
        ))}
      </SimpleGrid>
    </Radio.Group>
  );
}

function SizeCard(props: {
  size: ClusterSize;
  facts: readonly string[];
  monthly: number | undefined;
}) {
  const { size, facts, monthly } = props;
  return (
    <Radio.Card value={size} p="md" radius="md" aria-label={sizingOf(size).title}>
      <Group wrap="nowrap" align="flex-start" gap="sm">
        <Radio.Indicator mt={2} />
        <Stack gap={4}>
          <Text fw={600} fz="sm">
            {sizingOf(size).title}
          </Text>
          {facts.map((fact) => (
            <Text key={fact} fz="xs" className="quiet">
              {fact}
            </Text>
          ))}
          {monthly !== undefined && (
            <Text fz="xs" fw={600} className="number">
              about {usd(monthly)} per month
            </Text>
          )}
        </Stack>
      </Group>
    </Radio.Card>
  );
}

function factsOf(
  size: ClusterSize,
  provider: ClusterProvider,
  walBytes: number | undefined,
): string[] {
  const sizing = sizingOf(size);
  const caches = [
    `${KNOB_WORDS.wal_cache_bytes.title} ${bytes(sizing.walCacheBytes)}`,
    `${KNOB_WORDS.block_cache_bytes.title} ${bytes(sizing.blockCacheBytes)}`,
  ];
  if (provider === "local") {
    return [`Write-ahead log ${bytes(walBytes ?? sizing.walBytes)}`, ...caches];
  }
  const { instance } = awsSizing(size);
  return [
    `${instance.type}: ${instance.vcpus} vCPU, ${bytes(instance.memoryBytes)}`,
    `Network ${rate(instance.networkBaselineBytesPerSecond)}`,
    `Volumes ${rate(instance.ebsBaselineBytesPerSecond)}`,
    ...caches,
  ];
}

/** AWS states bandwidths in decimal bits. */
function rate(bytesPerSecond: number): string {
  return `${((bytesPerSecond * 8) / 1e9).toFixed(2)} Gbit/s`;
}
