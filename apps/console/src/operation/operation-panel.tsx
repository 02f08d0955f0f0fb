"use client";

import {
  Alert,
  Button,
  Card,
  CloseButton,
  Group,
  Progress,
  Skeleton,
  Stack,
  Text,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { Operation } from "@millrace/contract";
import { IconAlertTriangle, IconFileText, IconListDetails } from "@tabler/icons-react";
import { statusOf } from "../api/client.tsx";
import { Empty } from "../shell/empty.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { OperationActions } from "./operation-actions.tsx";
import { OperationLog } from "./operation-log.tsx";
import { ApprovalNote, OperationPlanDialog } from "./operation-plan.tsx";
import { OPERATION_TITLES, stateText, waitsForApproval } from "./operation-words.ts";
import { StepList } from "./step-list.tsx";
import { useOperation } from "./use-operation.ts";

interface PanelProps {
  operationId: string;
  clusterId: string;
  /** Shown from the start; the page of an operation is about nothing else. */
  withLog?: boolean;
  onDismiss?: () => void;
}

/** An operation as it happens: steps, log, plan, and what can be done about it. */
export function OperationPanel({ operationId, clusterId, withLog, onDismiss }: PanelProps) {
  const [reading, log] = useDisclosure(withLog ?? false);
  const [planned, plan] = useDisclosure(false);
  const { operation, error, lines } = useOperation(operationId, clusterId, reading);
  if (!operation) return error ? <Missing error={error} /> : <Skeleton h={160} radius="md" />;
  const title = OPERATION_TITLES[operation.kind];
  return (
    <Card component="section" aria-label={title} data-operation={operation.phase}>
      <Stack gap="md">
        <Group justify="space-between" wrap="nowrap">
          <Text fw={600}>{title}</Text>
          <Group gap="xs" wrap="nowrap">
            <Text fz="sm" className="quiet number">
              {stateText(operation)}
            </Text>
            {operation.done && onDismiss && (
              <CloseButton size="sm" aria-label="Dismiss" onClick={onDismiss} />
            )}
          </Group>
        </Group>
        {!operation.done && <Progress value={operation.progress.percent} aria-label="Progress" />}
        {waitsForApproval(operation) && <ApprovalNote operation={operation} onLook={plan.open} />}
        <StepList operation={operation} />
        {operation.error && (
          <Alert color="red" icon={<IconAlertTriangle size={18} />} title="The operation failed">
            <Text fz="sm" style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>
              {operation.error.message}
            </Text>
          </Alert>
        )}
        {reading && <OperationLog lines={lines} />}
        <Group gap="xs">
          <OperationActions operation={operation} clusterId={clusterId} />
          <Button
            size="xs"
            variant="subtle"
            leftSection={<IconListDetails size={14} />}
            aria-expanded={reading}
            onClick={log.toggle}
          >
            {reading ? "Hide log" : "Log"}
          </Button>
          {hasPlan(operation) && (
            <Button
              size="xs"
              variant="subtle"
              leftSection={<IconFileText size={14} />}
              onClick={plan.open}
            >
              Plan
            </Button>
          )}
        </Group>
      </Stack>
      <OperationPlanDialog
        operation={operation}
        clusterId={clusterId}
        opened={planned}
        onClose={plan.close}
      />
    </Card>
  );
}

function Missing({ error }: { error: unknown }) {
  if (statusOf(error) !== 404) {
    return <ProblemAlert error={error} title="Cannot load the operation" />;
  }
  return (
    <Empty
      title="Operation not found"
      text="The ID is wrong, or the operation belongs to another organization."
    />
  );
}

/** Kinds that plan have a step of that name; before it is done there is nothing to show. */
function hasPlan({ steps }: Operation): boolean {
  return steps.some(({ name, state }) => name === "plan" && state === "SUCCEEDED");
}
