"use client";

import { Button, Group } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { Operation } from "@millrace/contract";
import { cancelPermission, retryPermission } from "@millrace/domain";
import { useMutation } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { useCluster } from "../cluster/live.ts";
import { useAllowed } from "../session/use-allowed.ts";
import { ConfirmByName } from "../shell/confirm-by-name.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { canCancel, canRetry, isDeletion } from "./operation-words.ts";
import { useRefresh } from "./use-refresh.ts";

interface ActionsProps {
  operation: Operation;
  clusterId: string;
}

/** Cancels or retries an operation. */
export function OperationActions({ operation, clusterId }: ActionsProps) {
  const mayRetry = useAllowed(retryPermission(operation.kind));
  const mayCancel = useAllowed(cancelPermission(operation.kind));
  const { data: cluster } = useCluster(clusterId);
  const [asked, dialog] = useDisclosure(false);
  const { cancel, retry, error } = useActions(operation);
  if (!mayRetry && !mayCancel) return null;
  const goOn = () => retry.mutate({ operation_id: operation.id }, { onSuccess: dialog.close });
  const asking = asked && cluster !== undefined;
  return (
    <>
      {error != null && !asking && <ProblemAlert error={error} title="The request failed" />}
      <Group gap="xs">
        {mayRetry && canRetry(operation, cluster?.status.operation_id) && (
          <Button
            size="xs"
            loading={retry.isPending}
            onClick={isDeletion(operation) ? dialog.open : goOn}
          >
            Retry
          </Button>
        )}
        {mayCancel && canCancel(operation) && (
          <Button
            size="xs"
            variant="default"
            loading={cancel.isPending}
            onClick={() => cancel.mutate({ operation_id: operation.id })}
          >
            Cancel operation
          </Button>
        )}
      </Group>
      <ConfirmByName
        what="cluster"
        name={asking ? cluster.spec.name : undefined}
        text="The deletion resumes where it stopped."
        busy={retry.isPending}
        error={retry.error}
        onConfirm={goOn}
        onClose={dialog.close}
      />
    </>
  );
}

function useActions(operation: Operation) {
  const trpc = useTRPC();
  const options = { onSuccess: useRefresh() };
  const cancel = useMutation(trpc.operation.cancel.mutationOptions(options));
  const retry = useMutation(trpc.operation.retry.mutationOptions(options));
  // What was refused before the operation moved on is no news any more.
  const error = operation.done ? retry.error : cancel.error;
  return { cancel, retry, error };
}
