import type { Operation } from "@millrace/contract";
import type { Role } from "@millrace/domain";
import { beforeEach, expect, test, vi } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { awsCluster } from "../cluster/cluster.fixture.ts";
import { askedName, confirm, labels, press, reset } from "../shell/press.fixture.tsx";
import { operation } from "./operation.fixture.ts";
import { OperationActions } from "./operation-actions.tsx";

vi.mock("@mantine/core", async (original) => ({
  ...(await original<object>()),
  Button: (await import("../shell/press.fixture.tsx")).Button,
}));
vi.mock("@mantine/hooks", async (original) => ({
  ...(await original<object>()),
  useDisclosure: (await import("../shell/press.fixture.tsx")).useDisclosure,
}));
vi.mock("../shell/confirm-by-name.tsx", async () => ({
  ConfirmByName: (await import("../shell/press.fixture.tsx")).ConfirmByName,
}));

const FAILED = { phase: "FAILED", done: true } as const;

beforeEach(reset);

/** The actions of an operation of a cluster that names `latest` as its own. */
function actions(
  change: Partial<Operation>,
  latest = "op_test",
  api = new FakeApi(),
  role: Role = "owner",
): FakeApi {
  const { queryClient, trpc } = api;
  api.signIn(role);
  const cluster = awsCluster({ status: { operation_id: latest } });
  queryClient.setQueryData(trpc.cluster.get.queryKey({ cluster_id: "clu_test" }), cluster);
  api.render(<OperationActions operation={operation(change)} clusterId="clu_test" />);
  return api;
}

test("an operation that failed goes on at a press", async () => {
  const api = actions({ kind: "cluster.update", ...FAILED });
  press("Retry");
  await vi.waitFor(() =>
    expect(api.calls).toEqual([{ path: "operation.retry", input: { operation_id: "op_test" } }]),
  );
});

test.each(["cluster.delete", "cluster.purge"] as const)(
  "a %s goes on once the cluster's name was typed, and not at a press",
  async (kind) => {
    const api = actions({ kind, ...FAILED });
    expect(askedName()).toBeUndefined();
    press("Retry");
    actions({ kind, ...FAILED }, "op_test", api);
    expect(askedName()).toBe("orders");
    expect(api.calls).toEqual([]);
    confirm();
    await vi.waitFor(() =>
      expect(api.calls).toEqual([{ path: "operation.retry", input: { operation_id: "op_test" } }]),
    );
  },
);

test("only the operation that the cluster names as its own is retried", () => {
  actions({ kind: "cluster.update", ...FAILED }, "op_later");
  expect(labels()).toEqual([]);
  actions({ kind: "cluster.update", ...FAILED }, "op_test");
  expect(labels()).toEqual(["Retry"]);
});

test("a deletion is not retried by those who may not delete", () => {
  const api = new FakeApi();
  actions({ kind: "cluster.delete", ...FAILED }, "op_test", api, "operator");
  expect(labels()).toEqual([]);
  actions({ kind: "cluster.update", ...FAILED }, "op_test", api, "operator");
  expect(labels()).toEqual(["Retry"]);
});

test("what is under way is cancelled by its id", async () => {
  const api = actions({ kind: "cluster.update" });
  press("Cancel operation");
  await vi.waitFor(() =>
    expect(api.calls).toEqual([{ path: "operation.cancel", input: { operation_id: "op_test" } }]),
  );
});
