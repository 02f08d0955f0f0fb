"use client";

import { Alert, Button, Group, Modal, Skeleton, Stack, Text } from "@mantine/core";
import type { ChangePlan, Operation } from "@millrace/contract";
import { IconClock } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { CSSProperties } from "react";
import { useTRPC } from "../api/client.tsx";
import { useCluster } from "../cluster/live.ts";
import { ago } from "../format/time.ts";
import { ChangePreview } from "../plan/change-preview.tsx";
import { useAllowed } from "../session/use-allowed.ts";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { rejectionText, waitsForApproval } from "./operation-words.ts";

interface PlanDialogProps {
  operation: Operation;
  clusterId: string;
  opened: boolean;
  onClose: () => void;
}

/** The plan of an operation, with approval where it waits for it. */
export function OperationPlanDialog(props: PlanDialogProps) {
  const { operation, clusterId, opened, onClose } = props;
  const trpc = useTRPC();
  const { data: cluster } = useCluster(clusterId);
  const { data, error } = useQuery(
    trpc.operation.plan.queryOptions({ operation_id: operation.id }, { enabled: opened }),
  );
  return (
    <Modal
      opened={opened}
      onClose={onClose}
      size="xl"
      title={planTitle(operation, cluster?.spec.name)}
    >
      <Stack>
        {error && <ProblemAlert error={error} title="Cannot load the plan" />}
        {!data && !error && <Skeleton h={240} radius="md" />}
        {data && (
          <>
            <Text fz="sm" className="quiet">
              Created {ago(data.created_at)}.
            </Text>
            <ChangePreview
              preview={{ ...data, spec_changes: [], cost_delta: null, warnings: [] }}
            />
            {waitsForApproval(operation) && (
              <Approve operation={operation} plan={data.plan} onDone={onClose} />
            )}
          </>
        )}
      </Stack>
    </Modal>
  );
}

function planTitle({ kind }: Operation, name: string | undefined): string {
  if (name === undefined) return "Plan";
  return kind === "cluster.recover" ? `Recovery plan for ${name}` : `Plan for ${name}`;
}

interface ApproveProps {
  operation: Operation;
  plan: ChangePlan;
  onDone: () => void;
}

/** Approves exactly the plan shown: another plan has another digest and is rejected. */
export function Approve({ operation, plan, onDone }: ApproveProps) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const mayApprove = useAllowed("operation:write");
  const approve = useMutation(
    trpc.operation.approve.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.operation.pathFilter());
        onDone();
      },
      // A newer plan exists: show that one.
      onError: () => void queryClient.invalidateQueries(trpc.operation.plan.pathFilter()),
    }),
  );
  if (!mayApprove) return null;
  return (
    <>
      {approve.error && <ProblemAlert error={approve.error} title="The plan was not approved" />}
      <Group justify="flex-end" style={FOOTER}>
        <Button variant="default" onClick={onDone}>
          Cancel
        </Button>
        <Button
          {...(losesRecords(plan) && { color: "red" })}
          loading={approve.isPending}
          onClick={() => approve.mutate({ operation_id: operation.id, digest: plan.digest })}
        >
          {approvalText(plan)}
        </Button>
      </Group>
    </>
  );
}

/** In sight however long the plan is. */
const FOOTER: CSSProperties = {
  position: "sticky",
  bottom: 0,
  zIndex: 1,
  paddingBlock: "var(--mantine-spacing-sm)",
  background: "var(--mantine-color-body)",
  borderTop: "1px solid var(--mantine-color-default-border)",
};

function losesRecords({ recovery }: ChangePlan): boolean {
  return recovery != null && recovery.missing_partitions > 0;
}

function approvalText(plan: ChangePlan): string {
  if (plan.recovery == null) return "Approve plan";
  return losesRecords(plan) ? "Recover and accept the loss" : "Recover";
}

/** Shown while the operation waits for approval. */
export function ApprovalNote(props: { operation: Operation; onLook: () => void }) {
  const { operation, onLook } = props;
  return (
    <Alert
      color="orange"
      icon={<IconClock size={18} />}
      styles={{ title: { color: "var(--mantine-color-text)" } }}
      title="Waiting for approval"
      role="status"
    >
      <Group justify="space-between">
        <Text fz="sm">
          The plan is ready and will be applied after approval. {rejectionText(operation)}
        </Text>
        <Button size="xs" onClick={onLook}>
          Review plan
        </Button>
      </Group>
    </Alert>
  );
}
