"use client";

import type { ChangePreview } from "@millrace/contract";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRouter } from "next/navigation";
import { useState } from "react";
import { problemOf, statusOf, useTRPC } from "../api/client.tsx";
import { type ClusterDraft, checkDraft, NEW_CLUSTER, requestOf } from "./cluster-draft.ts";
import { type FieldErrors, fieldErrorsOf } from "./field-errors.ts";

/** A cluster on its way from the first key to its creation. */
export interface ClusterForm {
  draft: ClusterDraft;
  /** What is wrong, at the fields that the user has been at. */
  errors: FieldErrors;
  /** What was refused, and stands at none of the fields. */
  refusal: unknown;
  /** The plan that waits to be looked at. */
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
  const [draft, setDraft] = useState(NEW_CLUSTER);
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  const [refused, setRefused] = useState<FieldErrors>({});
  const calls = useCalls((error) => setRefused(refusedAt(error)));
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
  }

  return {
    draft,
    errors: { ...refused, ...Object.fromEntries(seen) },
    refusal: Object.keys(refused).length === 0 ? calls.error : null,
    preview: calls.preview,
    busy: calls.busy,
    set,
    leave: (pointer) => setLeft(new Set([...left, pointer])),
    review: () => ifRight(() => calls.review(draft)),
    reconsider: calls.forget,
    create: () => ifRight(() => calls.create(draft)),
  };
}

/** A name that is taken is refused without a pointer. */
function refusedAt(error: unknown): FieldErrors {
  const problem = problemOf(error);
  if (problem?.code === "cluster_name_taken") return { "/name": problem.detail };
  return statusOf(error) === 400 || statusOf(error) === 422 ? fieldErrorsOf(problem) : {};
}

function useCalls(onError: (error: unknown) => void) {
  const trpc = useTRPC();
  const router = useRouter();
  const queryClient = useQueryClient();
  const review = useMutation(trpc.cluster.create.mutationOptions({ onError }));
  const create = useMutation(
    trpc.cluster.create.mutationOptions({
      onError: (error) => {
        review.reset();
        onError(error);
      },
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
