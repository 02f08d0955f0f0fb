import { Card, Group, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import type { CatchUp } from "@millrace/contract";
import { ProgressBar } from "../charts/progress-bar.tsx";
import { bytes, int64, share, times } from "../format/quantity.ts";

type Cache = CatchUp["cache"];

/** The broker's block cache; each figure with its meaning. */
export function CacheCard({ cache }: { cache: Cache }) {
  const [size, used] = [Number(cache.size_bytes), Number(cache.used_bytes)];
  const filled = size > 0 ? (used / size) * 100 : 0;
  return (
    <Card component="section" aria-label="Block cache">
      <Stack gap="md">
        <div>
          <Group justify="space-between" gap="xs">
            <Title order={2} fz="h4">
              Block cache
            </Title>
            <Text fz="sm" className="number">
              <b>{bytes(used)}</b> of {bytes(size)}
            </Text>
          </Group>
          <ProgressBar
            size="sm"
            mt="xs"
            percent={filled}
            color="race"
            label="Block cache in use"
            text={`${bytes(used)} of ${bytes(size)}`}
          />
        </div>
        <SimpleGrid cols={{ base: 1, xs: 2, md: 3 }} spacing="lg">
          {figures(cache).map((figure) => (
            <div key={figure.label}>
              <Text fz="xs" className="quiet">
                {figure.label}
              </Text>
              <Text fz="xl" fw={650} className="number" data-figure={figure.label}>
                {figure.value}
              </Text>
              <Text fz="xs" className="quiet">
                {figure.text}
              </Text>
            </div>
          ))}
        </SimpleGrid>
      </Stack>
    </Card>
  );
}

function figures(cache: Cache): { label: string; value: string; text: string }[] {
  const { max, median } = cache.prefetch_window_bytes;
  return [
    {
      label: "Hit ratio",
      value: cache.hit_ratio === null ? "–" : share(cache.hit_ratio),
      text: `Share of block reads served from memory: ${int64(cache.hits)} of ${int64(String(BigInt(cache.hits) + BigInt(cache.misses)))}.`,
    },
    {
      label: "Fetched per byte delivered",
      value: cache.fetched_per_delivered === null ? "–" : times(cache.fetched_per_delivered),
      text: `Bytes read from object storage per byte delivered to consumers. Well above 1, the cache is too small and blocks are fetched again; below 1, consumers share blocks. ${bytes(Number(cache.fetched_bytes))} fetched, ${bytes(Number(cache.delivered_bytes))} delivered.`,
    },
    {
      label: "Evicted unread",
      value: bytes(Number(cache.evicted_unread_bytes)),
      text: "Prefetched, but evicted before it was read. Above 0, the cache is too small for its readers.",
    },
    {
      label: "Readers",
      value: String(cache.readers),
      text: "Streams that are read sequentially right now.",
    },
    {
      label: "Prefetch window, median",
      value: bytes(Number(median)),
      text: "How far the broker reads ahead of a reader. It grows while reads wait and shrinks while blocks do.",
    },
    {
      label: "Prefetch window, largest",
      value: bytes(Number(max)),
      text: "The largest window of any reader. Tuning sets its maximum.",
    },
  ];
}
