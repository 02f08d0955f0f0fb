"use client";

import { Button, Card, Group, Stack, Text, Title } from "@mantine/core";
import type { Drift } from "@millrace/contract";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { ago } from "../format/time.ts";
import { OperationPanel } from "../operation/operation-panel.tsx";
import { useRefresh } from "../operation/use-refresh.ts";
import { PlanView } from "../plan/plan-view.tsx";
import { useAllowed } from "../session/use-allowed.ts";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { DriftBadge } from "./drift-badge.tsx";

const DRIFT_POLL_MS = 5_000;

/** What the badge does not say already. */
const WORDS: Record<Drift["status"], string | undefined> = {
  unknown: "A check finds changes that were made outside Millrace.",
  in_sync: undefined,
  drifted:
    "Resources were changed outside Millrace. Undo the drift, or accept it: the next change of the cluster undoes accepted drift too. What an undo cannot revert, revert where it was changed.",
  accepted:
    "This drift is accepted until the next change of the cluster, which undoes it. New drift is still reported.",
};

/** Changes made outside Millrace: checked periodically and on request. */
export function DriftCard({ clusterId }: { clusterId: string }) {
  const trpc = useTRPC();
  const { data: drift, error } = useQuery(
    trpc.cluster.drift.queryOptions({ cluster_id: clusterId }, { refetchInterval: DRIFT_POLL_MS }),
  );
  const [watched, setWatched] = useState<string>();
  return (
    <Card component="section" aria-label="Drift">
      <Stack gap="md">
        <Group justify="space-between">
          <Group gap="sm">
            <Title order={2} fz="h5">
              Drift
            </Title>
            {drift && <DriftBadge status={drift.status} titled />}
          </Group>
          {drift?.checked_at && (
            <Text fz="xs" className="quiet">
              checked {ago(drift.checked_at)}
            </Text>
          )}
        </Group>
        {error && <ProblemAlert error={error} title="Cannot load the drift status" />}
        {drift && <DriftBody drift={drift} />}
        {drift && <DriftActions drift={drift} onOperation={setWatched} />}
        {watched && (
          <OperationPanel
            key={watched}
            operationId={watched}
            clusterId={clusterId}
            onDismiss={() => setWatched(undefined)}
          />
        )}
      </Stack>
    </Card>
  );
}

export function DriftBody({ drift }: { drift: Drift }) {
  const words = WORDS[drift.status];
  return (
    <>
      {words && (
        <Text fz="sm" className="quiet">
          {words}
        </Text>
      )}
      {drift.plan && drift.plan.changes.length > 0 && <PlanView changes={drift.plan.changes} />}
    </>
  );
}

function DriftActions(props: { drift: Drift; onOperation: (operationId: string) => void }) {
  const { drift, onOperation } = props;
  const mayAct = useAllowed("cluster:update");
  const { check, reconcile, accept, error } = useDriftActions(onOperation);
  if (!mayAct) return null;
  const cluster_id = drift.cluster_id;
  return (
    <>
      {error != null && <ProblemAlert error={error} title="The request failed" />}
      <Group gap="xs">
        {drift.status === "drifted" && (
          <>
            <Button
              size="xs"
              loading={reconcile.isPending}
              onClick={() => reconcile.mutate({ cluster_id })}
            >
              Undo drift
            </Button>
            <Button
              size="xs"
              variant="default"
              loading={accept.isPending}
              disabled={drift.digest === null}
              onClick={() => drift.digest && accept.mutate({ cluster_id, digest: drift.digest })}
            >
              Accept drift
            </Button>
          </>
        )}
        <Button
          size="xs"
          variant="default"
          loading={check.isPending}
          onClick={() => check.mutate({ cluster_id })}
        >
          Check for drift
        </Button>
      </Group>
    </>
  );
}

function useDriftActions(onOperation: (operationId: string) => void) {
  const trpc = useTRPC();
  const refresh = useRefresh();
  const onSuccess = ({ id }: { id: string }) => {
    onOperation(id);
    refresh();
  };
  const check = useMutation(trpc.cluster.checkDrift.mutationOptions({ onSuccess }));
  const reconcile = useMutation(trpc.cluster.reconcile.mutationOptions({ onSuccess }));
  const accept = useMutation(trpc.cluster.acceptDrift.mutationOptions({ onSuccess: refresh }));
  return { check, reconcile, accept, error: check.error ?? reconcile.error ?? accept.error };
}
