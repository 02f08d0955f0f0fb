"use client";

import { notifications } from "@mantine/notifications";
import type { ChangePreview, Cluster } from "@millrace/contract";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { problemOf, statusOf, useTRPC } from "../api/client.tsx";
import { type FieldErrors, fieldErrorsOf } from "../cluster-form/field-errors.ts";
import { useRefresh } from "../operation/use-refresh.ts";
import { type ChangeDraft, changeDraftOf, checkChange, patchOf } from "./change-draft.ts";

/** A cluster change, from editing to its operation. */
export interface ClusterChange {
  draft: ChangeDraft;
  errors: FieldErrors;
  /** The last refusal, where it belongs to no field. */
  refusal: unknown;
  preview: ChangePreview | undefined;
  busy: boolean;
  /** Something changes and no error is known. */
  ready: boolean;
  changed: boolean;
  set(change: Partial<ChangeDraft>): void;
  discard(): void;
  review(): void;
  /** Back to the fields. */
  reconsider(): void;
  apply(requireApproval: boolean): void;
}

export function useClusterChange(cluster: Cluster): ClusterChange {
  const [edited, setEdited] = useState<Partial<ChangeDraft>>({});
  const [refused, setRefused] = useState<FieldErrors>({});
  // What was reviewed is applied to the state that it was reviewed on.
  const [etag, setEtag] = useState<string>();
  const draft = { ...changeDraftOf(cluster), ...edited };
  const patch = patchOf(cluster, draft);
  const calls = useCalls(cluster, {
    refuse: (error) => setRefused(fieldErrorsOf(problemOf(error))),
    done: discard,
  });

  function discard() {
    setEdited({});
    setRefused({});
    calls.forget();
  }

  function set(change: Partial<ChangeDraft>) {
    setEdited({ ...edited, ...change });
    setRefused({});
    calls.forget();
  }

  const errors = { ...refused, ...checkChange(cluster, draft) };
  const changed = Object.keys(patch).length > 0;
  return {
    draft,
    errors,
    refusal: Object.keys(refused).length === 0 ? calls.error : null,
    preview: calls.preview,
    busy: calls.busy,
    changed,
    ready: changed && Object.keys(errors).length === 0,
    set,
    discard,
    review: () => {
      setEtag(cluster.metadata.etag);
      calls.review({ ...patch, if_match: cluster.metadata.etag });
    },
    reconsider: calls.forget,
    apply: (requireApproval) =>
      calls.apply({
        ...patch,
        ...(requireApproval && { require_approval: true }),
        if_match: etag ?? cluster.metadata.etag,
      }),
  };
}

type Request = ReturnType<typeof patchOf> & { if_match: string; require_approval?: boolean };

function useCalls(cluster: Cluster, on: { refuse: (error: unknown) => void; done: () => void }) {
  const trpc = useTRPC();
  const refresh = useRefresh();
  const cluster_id = cluster.metadata.id;
  const review = useMutation(trpc.cluster.update.mutationOptions({ onError: on.refuse }));
  const apply = useMutation(
    trpc.cluster.update.mutationOptions({
      onSuccess: (answer) => {
        refresh();
        on.done();
        const started = "operation_id" in answer;
        notifications.show({ message: started ? "Change started." : "Change saved." });
      },
      onError: (error) => {
        review.reset();
        on.refuse(error);
        // Somebody else was faster: the draft stands beside what they have made of the cluster.
        if (statusOf(error) === 412) refresh();
      },
    }),
  );
  return {
    preview: review.data && "plan" in review.data ? review.data : undefined,
    error: apply.error ?? review.error,
    busy: review.isPending || apply.isPending,
    review: (request: Request) => review.mutate({ ...request, cluster_id, validate_only: true }),
    apply: (request: Request) => apply.mutate({ ...request, cluster_id }),
    forget: () => {
      review.reset();
      apply.reset();
    },
  };
}
