"use client";

import {
  Alert,
  Card,
  CloseButton,
  Flex,
  Group,
  Loader,
  Progress,
  Stack,
  Text,
  ThemeIcon,
} from "@mantine/core";
import type { Operation } from "@millrace/contract";
import {
  IconAlertTriangle,
  IconCheck,
  IconCircleDashed,
  IconPlayerSkipForward,
} from "@tabler/icons-react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useSubscription } from "@trpc/tanstack-react-query";
import { useState } from "react";
import { useTRPC } from "../api/client.tsx";

type Step = Operation["steps"][number];

const TITLES: Record<Operation["kind"], string> = {
  "cluster.create": "Creating the cluster",
  "cluster.delete": "Deleting the cluster",
};
/** Beside the stream of events, in case a proxy on the way holds it back. */
const FALLBACK_POLL_MS = 2_000;

/** The steps of an operation, as they happen. */
export function OperationSteps({
  operationId,
  clusterId,
}: {
  operationId: string;
  clusterId: string;
}) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const [dismissed, setDismissed] = useState(false);
  const { data: operation } = useQuery(
    trpc.operation.get.queryOptions(
      { operation_id: operationId },
      { refetchInterval: ({ state }) => (state.data?.done ? false : FALLBACK_POLL_MS) },
    ),
  );
  useSubscription(
    trpc.operation.watch.subscriptionOptions(
      { operation_id: operationId },
      {
        enabled: operation?.done !== true,
        onData: () => {
          void queryClient.invalidateQueries(
            trpc.operation.get.queryFilter({ operation_id: operationId }),
          );
          void queryClient.invalidateQueries(
            trpc.cluster.get.queryFilter({ cluster_id: clusterId }),
          );
        },
      },
    ),
  );
  if (!operation || dismissed) return null;
  return (
    <Card component="section" aria-label={TITLES[operation.kind]}>
      <Stack gap="md">
        <Group justify="space-between" wrap="nowrap">
          <Text fw={600}>{TITLES[operation.kind]}</Text>
          <Group gap="xs" wrap="nowrap">
            <Text fz="sm" className="quiet number">
              {operation.done ? doneText(operation) : etaOf(operation)}
            </Text>
            {operation.done && (
              <CloseButton size="sm" aria-label="Dismiss" onClick={() => setDismissed(true)} />
            )}
          </Group>
        </Group>
        {!operation.done && <Progress value={operation.progress.percent} aria-label="Progress" />}
        <Flex
          component="ol"
          direction={operation.done ? "row" : "column"}
          wrap="wrap"
          rowGap="xs"
          columnGap="lg"
          m={0}
          p={0}
        >
          {operation.steps.map((step) => (
            <StepLine key={step.name} step={step} />
          ))}
        </Flex>
        {operation.error && (
          <Alert color="red" icon={<IconAlertTriangle size={18} />} title="It did not work out">
            {operation.error.message}
          </Alert>
        )}
      </Stack>
    </Card>
  );
}

function StepLine({ step }: { step: Step }) {
  return (
    <Group component="li" gap="sm" wrap="nowrap" data-step={step.name} data-state={step.state}>
      <StepIcon state={step.state} />
      <Text fz="sm" fw={step.state === "RUNNING" ? 600 : 400}>
        {step.title}
      </Text>
      {step.attempt > 1 && (
        <Text fz="xs" className="quiet">
          try {step.attempt}
        </Text>
      )}
      {step.message && (
        <Text fz="xs" className="quiet" truncate>
          {step.message}
        </Text>
      )}
    </Group>
  );
}

function StepIcon({ state }: { state: Step["state"] }) {
  if (state === "RUNNING") return <Loader size={20} type="oval" role="img" aria-label="running" />;
  const [color, Icon] = {
    PENDING: ["gray", IconCircleDashed] as const,
    SUCCEEDED: ["green", IconCheck] as const,
    SKIPPED: ["gray", IconPlayerSkipForward] as const,
    FAILED: ["red", IconAlertTriangle] as const,
  }[state];
  return (
    <ThemeIcon
      size={20}
      radius="xl"
      variant="light"
      color={color}
      aria-label={state.toLowerCase()}
      role="img"
    >
      <Icon size={13} />
    </ThemeIcon>
  );
}

function doneText({ phase, started_at, ended_at }: Operation): string {
  if (phase !== "SUCCEEDED" || !started_at || !ended_at) return "failed";
  return `done in ${((Date.parse(ended_at) - Date.parse(started_at)) / 1_000).toFixed(1)} s`;
}

function etaOf({ progress }: Operation): string {
  if (progress.eta_seconds === null) return `${progress.percent} %`;
  return `${progress.percent} %, about ${Math.max(1, progress.eta_seconds)} s left`;
}
