"use client";

import { Alert, Button, Group, Modal, Skeleton, Stack, Text } from "@mantine/core";
import type { Operation } from "@millrace/contract";
import { IconClock } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { ago } from "../format/time.ts";
import { ChangePreview } from "../plan/change-preview.tsx";
import { useAllowed } from "../session/use-allowed.ts";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { rejectionText, waitsForApproval } from "./operation-words.ts";

interface PlanDialogProps {
  operation: Operation;
  opened: boolean;
  onClose: () => void;
}

/** The plan of an operation, with approval where it waits for it. */
export function OperationPlanDialog({ operation, opened, onClose }: PlanDialogProps) {
  const trpc = useTRPC();
  const { data, error } = useQuery(
    trpc.operation.plan.queryOptions({ operation_id: operation.id }, { enabled: opened }),
  );
  return (
    <Modal opened={opened} onClose={onClose} size="xl" title="Plan">
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
              <Approve operation={operation} digest={data.plan.digest} onDone={onClose} />
            )}
          </>
        )}
      </Stack>
    </Modal>
  );
}

/** Approves exactly the plan shown: another plan has another digest and is rejected. */
function Approve(props: { operation: Operation; digest: string; onDone: () => void }) {
  const { operation, digest, onDone } = props;
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
      <Group justify="flex-end">
        <Button
          loading={approve.isPending}
          onClick={() => approve.mutate({ operation_id: operation.id, digest })}
        >
          Approve plan
        </Button>
      </Group>
    </>
  );
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
