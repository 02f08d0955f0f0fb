"use client";

import { Button, Group } from "@mantine/core";
import type { Operation } from "@millrace/contract";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { useAllowed } from "../session/use-allowed.ts";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { canCancel, canRetry } from "./operation-words.ts";

/** What can be done about an operation now: end it, or have it go on. */
export function OperationActions({ operation }: { operation: Operation }) {
  const mayAct = useAllowed("operation:write");
  const { cancel, retry, error } = useActions(operation);
  if (!mayAct) return null;
  return (
    <>
      {error != null && <ProblemAlert error={error} title="That was not possible" />}
      <Group gap="xs">
        {canRetry(operation) && (
          <Button
            size="xs"
            loading={retry.isPending}
            onClick={() => retry.mutate({ operation_id: operation.id })}
          >
            Retry
          </Button>
        )}
        {canCancel(operation) && (
          <Button
            size="xs"
            variant="default"
            loading={cancel.isPending}
            onClick={() => cancel.mutate({ operation_id: operation.id })}
          >
            Cancel the operation
          </Button>
        )}
      </Group>
    </>
  );
}

function useActions(operation: Operation) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const options = {
    onSuccess: () => {
      void queryClient.invalidateQueries(trpc.operation.pathFilter());
      void queryClient.invalidateQueries(trpc.cluster.pathFilter());
    },
  };
  const cancel = useMutation(trpc.operation.cancel.mutationOptions(options));
  const retry = useMutation(trpc.operation.retry.mutationOptions(options));
  // What was refused before the operation moved on is no news any more.
  const error = operation.done ? retry.error : cancel.error;
  return { cancel, retry, error };
}
