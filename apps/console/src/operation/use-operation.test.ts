import { expect, test } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { refreshAfterEvent } from "./use-operation.ts";

test("the end of a drift check refreshes the drift that is shown", () => {
  const { queryClient, trpc } = new FakeApi();
  const shown = trpc.cluster.drift.queryKey({ cluster_id: "clu_test" });
  const other = trpc.cluster.drift.queryKey({ cluster_id: "clu_other" });
  queryClient.setQueryData(shown, { status: "unknown" } as never);
  queryClient.setQueryData(other, { status: "unknown" } as never);
  refreshAfterEvent(queryClient, trpc, { operationId: "op_test", clusterId: "clu_test" });
  expect(queryClient.getQueryState(shown)?.isInvalidated).toBe(true);
  expect(queryClient.getQueryState(other)?.isInvalidated).toBe(false);
});
