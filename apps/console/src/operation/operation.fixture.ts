/** Operations as the API answers them, for tests. */
import type { Operation } from "@millrace/contract";

/** The creation of a cluster, under way. */
export function operation(change: Partial<Operation>): Operation {
  return {
    id: "op_test",
    kind: "cluster.create",
    provider: "aws",
    target: { type: "cluster", id: "clu_test" },
    phase: "RUNNING",
    done: false,
    steps: [],
    progress: { percent: 40, eta_seconds: 200 },
    error: null,
    result: null,
    require_approval: false,
    created_by: null,
    approved_at: null,
    cancel_requested_at: null,
    created_at: "2026-11-21T12:00:00.000Z",
    updated_at: "2026-11-21T12:00:00.000Z",
    started_at: "2026-11-21T12:00:00.000Z",
    ended_at: null,
    ...change,
  };
}
