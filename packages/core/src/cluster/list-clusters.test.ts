import { type Cluster, newId, type Operation, type Principal } from "@millrace/domain";
import { expect, test, vi } from "vitest";
import type { Core } from "../core.ts";
import { PageTokens } from "../page-token.ts";
import { listClusters } from "./list-clusters.ts";

test("the operations of all clusters that are being updated are read at once", async () => {
  const cluster = (phase: string) => ({ id: newId("clu"), phase }) as unknown as Cluster;
  const items = [cluster("UPDATING"), cluster("RUNNING"), cluster("UPDATING")];
  const pending = {
    ...{ kind: "cluster.update", steps: [] },
    parameters: { origin: { spec: { plaintextListener: true } } },
  } as unknown as Operation;
  const underWayOf = vi.fn(async (ids: readonly string[]) => new Map([[ids[1], pending]]));
  const db = {
    brokerLinks: { list: async () => [] },
    clusters: { list: async () => ({ items, next: undefined }) },
    operations: { latestOf: async () => new Map(), underWayOf },
    transaction: (work: (tx: unknown) => unknown) => work(db),
  };
  const core = {
    db,
    pageTokens: new PageTokens("a secret of the tests, long enough"),
  } as unknown as Core;
  const principal = { organizationId: newId("org") } as unknown as Principal;
  const page = await listClusters(core, principal, {});
  const updating = items.filter(({ phase }) => phase === "UPDATING").map(({ id }) => id);
  expect(underWayOf.mock.calls).toEqual([[updating]]);
  expect(page.items.map(({ listeners }) => listeners)).toEqual([
    ...[undefined, undefined, { plaintextListener: true }],
  ]);
});
