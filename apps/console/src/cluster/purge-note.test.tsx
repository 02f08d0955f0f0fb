import { beforeEach, expect, test, vi } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { askedName, confirm, labels, press, reset } from "../shell/press.fixture.tsx";
import { awsCluster } from "./cluster.fixture.ts";
import { PurgeNote } from "./purge-note.tsx";

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

beforeEach(reset);

function note(role: "viewer" | "owner", api = new FakeApi()): FakeApi {
  api.signIn(role);
  const purge_at = "2026-11-29T12:00:00.000Z";
  api.render(<PurgeNote cluster={awsCluster({ status: { phase: "PENDING_PURGE", purge_at } })} />);
  return api;
}

test("a purge keeps nothing, and begins once the name was typed", async () => {
  const api = note("owner");
  press("Purge now");
  note("owner", api);
  expect(askedName()).toBe("orders");
  expect(api.calls).toEqual([]);
  confirm();
  await vi.waitFor(() =>
    expect(api.calls).toEqual([
      { path: "cluster.delete", input: { cluster_id: "clu_test", retain_days: 0 } },
    ]),
  );
});

test("the way back is taken at a press", async () => {
  const api = note("owner");
  press("Restore cluster");
  await vi.waitFor(() =>
    expect(api.calls).toEqual([{ path: "cluster.restore", input: { cluster_id: "clu_test" } }]),
  );
});

test("who may do neither is offered neither", () => {
  note("viewer");
  expect(labels()).toEqual([]);
});
