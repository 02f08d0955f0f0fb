"use client";

import { Alert, Box, Card, Skeleton, Stack, Text, Title } from "@mantine/core";
import type { Tuning } from "@millrace/contract";
import { IconClock, IconEye } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Fragment } from "react";
import { useTRPC } from "../api/client.tsx";
import { ChartToolbar } from "../charts/chart-toolbar.tsx";
import { MetricCharts } from "../charts/metric-charts.tsx";
import { useCluster } from "../cluster/live.ts";
import { useAllowed, useDenied } from "../session/use-allowed.ts";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { ChangeBar } from "./change-bar.tsx";
import { ConfirmChange } from "./confirm-change.tsx";
import { chartsOf } from "./knob-charts.ts";
import { KnobRow } from "./knob-row.tsx";
import { KNOB_GROUPS, type KnobGroup } from "./knobs.ts";
import { type TuningEdit, useTuningEdit } from "./tuning-edit.ts";
import { TuningHistory } from "./tuning-history.tsx";

/** Often enough to see the broker apply what it missed. */
const TUNING_POLL_MS = 3_000;
/** Long enough to compare before and after a change. */
const CHART_MINUTES = 15;

/** A cluster's tuning settings with their bounds, applied without a restart, and their history. */
export function TuningPage({ clusterId }: { clusterId: string }) {
  const trpc = useTRPC();
  const { data, error } = useQuery(
    trpc.tuning.get.queryOptions({ cluster_id: clusterId }, { refetchInterval: TUNING_POLL_MS }),
  );
  const { data: cluster } = useCluster(clusterId);
  const paused = cluster?.status.phase === "PAUSED";
  const edit = useTuningEdit(clusterId, data, paused);
  const mayWrite = useAllowed("tuning:write");
  const readOnly = useDenied("tuning:write");
  return (
    <Stack gap="md">
      {error && <ProblemAlert error={error} title="Cannot load the tuning" />}
      {data && <StateNote tuning={data} paused={paused} />}
      {readOnly && (
        <Alert color="gray" icon={<IconEye size={18} />} title="Read-only">
          Your role does not allow you to change the tuning.
        </Alert>
      )}
      {!data && !error && <Skeleton h={480} radius="md" />}
      {data && <ChartToolbar clusterId={clusterId} minutes={CHART_MINUTES} />}
      {data &&
        KNOB_GROUPS.map((group) => (
          <GroupCard
            key={group.title}
            clusterId={clusterId}
            group={group}
            tuning={data}
            edit={mayWrite ? edit : undefined}
          />
        ))}
      <ChangeBar edit={edit} />
      <ConfirmChange edit={edit} tuning={data} paused={paused} />
      <TuningHistory clusterId={clusterId} />
    </Stack>
  );
}

/** Why the running values are not the ones that were set. */
export function StateNote({ tuning, paused = false }: { tuning: Tuning; paused?: boolean }) {
  if (tuning.applied) return null;
  if (paused) return <PausedNote />;
  const asked = tuning.metadata.version > 0;
  return (
    <Alert
      color="orange"
      icon={<IconClock size={18} />}
      // Mantine's orange misses AA contrast on its own light ground.
      styles={{ title: { color: "var(--mantine-color-text)" } }}
      title={asked ? "Saved, not applied yet" : "Current values unavailable"}
      role="status"
    >
      {tuning.problem
        ? `The broker rejected this: ${tuning.problem}`
        : asked
          ? "The broker does not respond. It gets the saved values when it is back."
          : "The broker does not respond. The values shown are the defaults of the cluster's size."}
    </Alert>
  );
}

function PausedNote() {
  return (
    <Alert color="gray" icon={<IconClock size={18} />} title="The cluster is paused" role="status">
      Changes are saved now and apply when the cluster is resumed.
    </Alert>
  );
}

function GroupCard(props: {
  clusterId: string;
  group: KnobGroup;
  tuning: Tuning;
  edit: TuningEdit | undefined;
}) {
  const { clusterId, group, tuning, edit } = props;
  return (
    <Card component="section" aria-label={group.title} padding={0}>
      <Card.Section withBorder inheritPadding px="lg" py="md" m={0}>
        <Title order={2} fz="h4">
          {group.title}
        </Title>
        <Text fz="sm" className="quiet">
          {group.text}
        </Text>
      </Card.Section>
      {group.knobs.map((knob, at) => (
        <Fragment key={knob}>
          <KnobRow knob={knob} setting={tuning[knob]} edit={edit} first={at === 0} />
        </Fragment>
      ))}
      <Box p="md">
        <MetricCharts
          clusterId={clusterId}
          charts={chartsOf(group.knobs)}
          minutes={CHART_MINUTES}
        />
      </Box>
    </Card>
  );
}
