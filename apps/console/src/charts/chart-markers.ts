/** What happened to a cluster, as marks on its charts. */
import type { Cluster, Operation, TuningChange } from "@millrace/contract";
import { useQuery } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { useCluster } from "../cluster/live.ts";
import { OPERATION_TITLES } from "../operation/operation-words.ts";
import { KNOB_WORDS, valueText } from "../tuning/knobs.ts";

export interface ChartMarker {
  /** Milliseconds since the epoch. */
  at: number;
  text: string;
}

/** The newest of each kind; older ones have left the charts, or are too dense to read. */
const MARKERS_MAX = 50;
const POLL_MS = 5_000;

export function tuningMarkers(changes: readonly TuningChange[]): ChartMarker[] {
  return changes.map(({ created_at, version, changes: knobs, reverts }) => {
    const what = reverts ? `Tuning #${version}, reverts #${reverts.version}` : `Tuning #${version}`;
    const lines = knobs.map(
      ({ field, from, to }) =>
        `${KNOB_WORDS[field].title}: ${valueText(field, from)} → ${valueText(field, to)}`,
    );
    return { at: Date.parse(created_at), text: [what, ...lines].join("\n") };
  });
}

/** Starts of operations, and the restarts that were a part of them. */
export function operationMarkers(operations: readonly Operation[]): ChartMarker[] {
  return operations.flatMap(({ kind, started_at, created_at, steps }) => [
    { at: Date.parse(started_at ?? created_at), text: OPERATION_TITLES[kind] },
    ...steps.flatMap(({ name, state, ended_at }) =>
      name === "restart_broker" && state === "SUCCEEDED" && ended_at !== null
        ? [{ at: Date.parse(ended_at), text: "Broker restarted" }]
        : [],
    ),
  ]);
}

/** A broker that ended by itself and is started again. */
export function restartMarkers(status: Cluster["status"] | undefined): ChartMarker[] {
  return (status?.conditions ?? [])
    .filter(({ reason }) => reason === "Recovering")
    .map(({ last_transition_at, message }) => ({
      at: Date.parse(last_transition_at),
      text: `Broker restarts\n${message}`,
    }));
}

/** Tunings, restarts and operations of a cluster, oldest first. */
export function useChartMarkers(clusterId: string): ChartMarker[] {
  const trpc = useTRPC();
  const page = { cluster_id: clusterId, page_size: MARKERS_MAX };
  const options = { refetchInterval: POLL_MS };
  const { data: tunings } = useQuery(trpc.tuning.history.queryOptions(page, options));
  const { data: operations } = useQuery(trpc.operation.list.queryOptions(page, options));
  const { data: cluster } = useCluster(clusterId);
  return [
    ...tuningMarkers(tunings?.items ?? []),
    ...operationMarkers(operations?.items ?? []),
    ...restartMarkers(cluster?.status),
  ].sort((a, b) => a.at - b.at);
}
