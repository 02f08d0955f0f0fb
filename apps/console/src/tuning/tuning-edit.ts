"use client";

import { notifications } from "@mantine/notifications";
import type { Tuning } from "@millrace/contract";
import type { TuningKnob } from "@millrace/domain";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { problemOf, statusOf, useTRPC } from "../api/client.tsx";
import { savedText } from "./apply-words.ts";
import {
  type Change,
  changesOf,
  checkDraft,
  type Draft,
  type FieldErrors,
  fieldErrorsOf,
  type Override,
  patchOf,
} from "./draft.ts";

/** A tuning change, from editing to the broker. */
export interface TuningEdit {
  draft: Draft;
  changes: Change[];
  errors: FieldErrors;
  /** The last refusal, where it belongs to no field. */
  refusal: unknown;
  /** The API has validated the changes; they wait for confirmation. */
  confirming: boolean;
  busy: boolean;
  /** Something changes and no error is known. */
  ready: boolean;
  /** Edits a knob; undefined leaves it as it is. */
  set(knob: TuningKnob, override: Override | undefined): void;
  discard(): void;
  /** Asks the API whether the changes would do. */
  preview(): void;
  /** Back to the fields. */
  reconsider(): void;
  apply(): void;
}

export function useTuningEdit(
  clusterId: string,
  tuning: Tuning | undefined,
  paused: boolean,
): TuningEdit {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const [draft, setDraft] = useState<Draft>({});
  const [refused, setRefused] = useState<FieldErrors>({});
  const [confirming, setConfirming] = useState(false);
  // What was previewed is applied to the state that it was previewed on: the tuning is read again
  // every few seconds, and its newest tag would let the change pass over somebody else's.
  const [previewedEtag, setPreviewedEtag] = useState<string>();
  const changes = tuning ? changesOf(tuning, draft) : [];
  const request = (etag: string | undefined) => ({
    cluster_id: clusterId,
    ...(etag !== undefined && { if_match: etag }),
    ...patchOf(changes),
  });

  function askForPreview() {
    const etag = tuning?.metadata.etag;
    setPreviewedEtag(etag);
    preview.mutate({ ...request(etag), validate_only: true });
  }

  function refuse(error: unknown) {
    setConfirming(false);
    setRefused(fieldErrorsOf(problemOf(error)));
    // Somebody else was faster: what is shown beside the draft becomes what they have made of it.
    if (statusOf(error) === 412) void queryClient.invalidateQueries(trpc.tuning.pathFilter());
  }

  const preview = useMutation(
    trpc.tuning.update.mutationOptions({ onSuccess: () => setConfirming(true), onError: refuse }),
  );
  const apply = useMutation(
    trpc.tuning.update.mutationOptions({
      onSuccess: ({ applied }) => {
        discard();
        void queryClient.invalidateQueries(trpc.tuning.pathFilter());
        notifications.show({ message: savedText({ applied, paused }) });
      },
      onError: refuse,
    }),
  );

  function discard() {
    setDraft({});
    setRefused({});
    setConfirming(false);
    preview.reset();
    apply.reset();
  }

  function set(knob: TuningKnob, override: Override | undefined) {
    const { [knob]: _before, ...others } = draft;
    setDraft(override === undefined ? others : { ...others, [knob]: override });
    // A refusal may have been about this knob beside the others: it is asked about again.
    setRefused({});
    preview.reset();
    apply.reset();
  }

  const errors = { ...refused, ...(tuning && checkDraft(tuning, draft)) };
  const ready = changes.length > 0 && Object.keys(errors).length === 0;
  const failure = apply.error ?? preview.error;
  return {
    draft,
    changes,
    errors,
    ready,
    refusal: Object.keys(refused).length === 0 ? failure : null,
    confirming,
    busy: preview.isPending || apply.isPending,
    set,
    discard,
    preview: () => ready && askForPreview(),
    reconsider: () => setConfirming(false),
    apply: () => apply.mutate(request(previewedEtag)),
  };
}
