import type { Cluster } from "@millrace/contract";
import { expect, test } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { CatchUpPage } from "../catch-up/catch-up-page.tsx";
import { GroupList } from "../consumer-group/group-list.tsx";
import { TopicList } from "../topic/topic-list.tsx";
import { hasLiveFigures } from "./broker-state.ts";
import { localCluster } from "./cluster.fixture.ts";

type Phase = Cluster["status"]["phase"];

function clusterIn(phase: Phase): Cluster {
  const cluster = localCluster();
  return { ...cluster, status: { ...cluster.status, phase } };
}

test.each([
  ["topics", TopicList],
  ["groups", GroupList],
  ["catch-up", CatchUpPage],
])("%s of a broker that is down: said at once, without a placeholder or a request", (_, Page) => {
  const api = new FakeApi();
  const cluster = clusterIn("DEGRADED");
  const input = { cluster_id: cluster.metadata.id };
  api.queryClient.setQueryData(api.trpc.cluster.get.queryKey(input), cluster);
  const html = api.render(<Page clusterId={cluster.metadata.id} />);
  expect(html).toContain("The broker is down");
  expect(html).not.toContain("Skeleton");
  expect(api.calls).toEqual([]);
});

test("figures are shown only while a broker can be behind them", () => {
  const shown = (
    ["RUNNING", "UPDATING", "DEGRADED", "PAUSED", "FAILED", "DELETING"] as const
  ).filter((phase) => hasLiveFigures(clusterIn(phase)));
  expect(shown).toEqual(["RUNNING", "UPDATING"]);
});
