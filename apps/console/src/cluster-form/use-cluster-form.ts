"use client";

import type { ChangePreview } from "@millrace/contract";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRouter } from "next/navigation";
import { useEffect, useState } from "react";
import { problemOf, useTRPC } from "../api/client.tsx";
import {
  type ClusterDraft,
  checkDraft,
  NEW_CLUSTER,
  requestOf,
  startingWith,
} from "./cluster-draft.ts";
import { type FieldErrors, fieldErrorsOf, showFirstError } from "./field-errors.ts";
import { useRegions } from "./region-field.tsx";

/** A cluster on its way from the first key to its creation. */
export interface ClusterForm {
  draft: ClusterDraft;
  /** What is wrong, at the fields that the user has visited. */
  errors: FieldErrors;
  /** The last refusal; its remedy belongs to no field. */
  refusal: unknown;
  /** The plan under review. */
  preview: ChangePreview | undefined;
  busy: boolean;
  set(draft: ClusterDraft): void;
  /** The user has been at a field: from now on it says what is wrong. */
  leave(pointer: string): void;
  /** Asks the API what would be made. */
  review(): void;
  /** Back to the fields. */
  reconsider(): void;
  create(): void;
}

export function useClusterForm(): ClusterForm {
  const regions = useRegions();
  const [chosen, setDraft] = useState<ClusterDraft>();
  const draft = chosen ?? startingWith(NEW_CLUSTER, regions);
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  const [refused, setRefused] = useState<FieldErrors>({});
  const calls = useCalls((error) => setRefused(fieldErrorsOf(problemOf(error))));
  // Refused fields may be far above the button that was pressed.
  useEffect(() => {
    if (Object.keys(refused).length > 0) showFirstError();
  }, [refused]);
  const wrong = checkDraft(draft);
  const seen = Object.entries(wrong).filter(([at]) => at.startsWith("/wal") || left.has(at));

  function set(next: ClusterDraft) {
    setDraft(next);
    setRefused({});
    calls.forget();
  }

  function ifRight(go: () => void) {
    setLeft(new Set(Object.keys(wrong)));
    if (Object.keys(wrong).length === 0) go();
    // The errors are drawn first.
    else setTimeout(showFirstError);
  }

  return {
    draft,
    errors: { ...refused, ...Object.fromEntries(seen) },
    refusal: calls.error,
    preview: calls.preview,
    busy: calls.busy,
    set,
    leave: (pointer) => setLeft(new Set([...left, pointer])),
    review: () => ifRight(() => calls.review(draft)),
    reconsider: calls.forget,
    create: () => ifRight(() => calls.create(draft)),
  };
}

function useCalls(onError: (error: unknown) => void) {
  const trpc = useTRPC();
  const router = useRouter();
  const queryClient = useQueryClient();
  const review = useMutation(trpc.cluster.create.mutationOptions({ onError }));
  const create = useMutation(
    trpc.cluster.create.mutationOptions({
      // The plan stays in view with the refusal below it.
      onError,
      onSuccess: (cluster) => {
        void queryClient.invalidateQueries(trpc.cluster.list.pathFilter());
        if ("metadata" in cluster) router.push(`/clusters/${cluster.metadata.id}`);
      },
    }),
  );
  return {
    preview: review.data && "plan" in review.data ? review.data : undefined,
    error: create.error ?? review.error,
    busy: review.isPending || create.isPending,
    review: (draft: ClusterDraft) => review.mutate({ ...requestOf(draft), validate_only: true }),
    create: (draft: ClusterDraft) => create.mutate(requestOf(draft)),
    forget: () => {
      review.reset();
      create.reset();
    },
  };
}
