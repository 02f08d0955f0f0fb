"use client";

import {
  Alert,
  Badge,
  Button,
  Card,
  Collapse,
  Group,
  SimpleGrid,
  Stack,
  Text,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconAlertTriangle, IconChevronDown, IconChevronRight } from "@tabler/icons-react";
import { useEffect, useRef } from "react";
import { ProgressBar } from "../charts/progress-bar.tsx";
import { byteRate, bytes, int64 } from "../format/quantity.ts";
import { bandText, type CatchUpGroup, etaText, percentDone, progressText } from "./backlog.ts";
import { CAUSE_TEXTS } from "./cause-text.ts";
import { ModeBadge, modeColor } from "./mode-badge.tsx";
import { PartitionTable } from "./partition-table.tsx";

/** One group: its backlog, how fast it changes, and the remaining time. */
export function GroupCard({ group, wanted }: { group: CatchUpGroup; wanted: boolean }) {
  const [opened, { toggle }] = useDisclosure(wanted);
  const card = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (wanted) card.current?.scrollIntoView({ block: "start" });
  }, [wanted]);
  const Chevron = opened ? IconChevronDown : IconChevronRight;
  const partitions = group.partitions.length;
  const partitionsText = `${partitions} ${partitions === 1 ? "partition" : "partitions"}`;
  const drain = group.drain_bytes_per_second;
  return (
    <Card
      ref={card}
      component="section"
      aria-label={`Consumer group ${group.group}`}
      padding="md"
      data-group={group.group}
      style={{ scrollMarginTop: 76 }}
    >
      <Stack gap="sm">
        <Group justify="space-between" gap="xs">
          <Group gap="sm">
            <Text component="h3" ff="monospace" fw={600} m={0} style={{ overflowWrap: "anywhere" }}>
              {group.group}
            </Text>
            <ModeBadge mode={group.mode} />
            <Badge variant="default" tt="none" fw={500}>
              {group.state}
            </Badge>
          </Group>
          <Stack gap={0} align="flex-end">
            <Text fz="lg" fw={650} className="number" data-eta>
              {etaText(group)}
            </Text>
            {bandText(group) && (
              <Text fz="xs" className="quiet number" data-band>
                {bandText(group)}
              </Text>
            )}
          </Stack>
        </Group>
        <BacklogBar group={group} />
        {group.cause && (
          <Alert
            color="orange"
            icon={<IconAlertTriangle size={18} />}
            // Mantine's orange misses AA contrast on its own light ground.
            styles={{ title: { color: "var(--mantine-color-text)" } }}
            title={CAUSE_TEXTS[group.cause].title}
            data-cause={group.cause}
          >
            {CAUSE_TEXTS[group.cause].remedy}
          </Alert>
        )}
        <SimpleGrid cols={{ base: 2, sm: 4 }} spacing="sm">
          <Figure
            label="Backlog"
            value={bytes(Number(group.backlog_bytes))}
            below={`${int64(group.backlog_records)} records`}
          />
          <Figure label="Read rate" value={byteRate(group.read_bytes_per_second)} />
          <Figure label="Produce rate" value={byteRate(group.produce_bytes_per_second)} />
          {group.backlog_records !== "0" && (
            <Figure
              label={drain < 0 ? "Backlog grows" : "Backlog shrinks"}
              value={byteRate(Math.abs(drain))}
            />
          )}
        </SimpleGrid>
        {partitions > 0 && (
          <Group>
            <Button
              variant="subtle"
              size="compact-sm"
              leftSection={<Chevron size={16} />}
              onClick={toggle}
              aria-expanded={opened}
              aria-label={`${partitionsText} of ${group.group}`}
            >
              {partitionsText}
            </Button>
          </Group>
        )}
        <Collapse expanded={opened} keepMounted={false}>
          <PartitionTable group={group.group} partitions={group.partitions} />
        </Collapse>
      </Stack>
    </Card>
  );
}

/** The share of the backlog that is already read; empty where it is unknown. */
export function BacklogBar({ group }: { group: CatchUpGroup }) {
  const percent = percentDone(group);
  return (
    <Group gap="sm" wrap="nowrap">
      <ProgressBar
        size="lg"
        flex={1}
        percent={percent}
        color={modeColor(group.mode)}
        label={`Progress of ${group.group}`}
        text={progressText(group)}
      />
      <Text fz="sm" fw={600} className="number" miw={48} ta="right" data-percent>
        {percent === undefined ? "–" : `${Math.floor(percent)} %`}
      </Text>
    </Group>
  );
}

function Figure(props: { label: string; value: string; below?: string }) {
  return (
    <div>
      <Text fz="xs" className="quiet">
        {props.label}
      </Text>
      <Text fz="sm" fw={600} className="number" data-figure-value={props.label}>
        {props.value}
      </Text>
      {props.below && (
        <Text fz="xs" className="quiet number">
          {props.below}
        </Text>
      )}
    </div>
  );
}
