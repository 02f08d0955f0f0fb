import { notifications } from "@mantine/notifications";
import type { Cluster, TuningChange } from "@millrace/contract";
import { beforeEach, expect, test, vi } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { awsCluster } from "../cluster/cluster.fixture.ts";
import { press, reset } from "../shell/press.fixture.tsx";
import { ConfirmChange } from "./confirm-change.tsx";
import { RevertChange } from "./revert-change.tsx";
import { devTuning } from "./tuning.fixture.ts";
import { type TuningEdit, useTuningEdit } from "./tuning-edit.ts";

vi.mock("@mantine/notifications", () => ({ notifications: { show: vi.fn() } }));
vi.mock("../shell/review-dialog.tsx", async () => ({
  ReviewDialog: (await import("../shell/press.fixture.tsx")).ReviewDialog,
}));

const MIB = 1024 ** 2;
const CHANGE: TuningChange = {
  id: "tch_3",
  version: 3,
  created_at: "2026-11-21T12:00:00Z",
  principal: { kind: "user", id: "usr_1", name: "Ada" },
  changes: [
    { field: "block_cache_bytes", from: 128 * MIB, to: 64 * MIB, to_default: false },
    { field: "wal_cache_bytes", from: 48 * MIB, to: 64 * MIB, to_default: false },
  ],
  reverts: null,
  result: "applied",
  problem: null,
};
const REVERT = <RevertChange clusterId="clu_test" change={CHANGE} onClose={() => undefined} />;

let edit: TuningEdit | undefined;

/** The dialog that reviews an edit, of a broker that has not the current values. */
function Review({ paused }: { paused: boolean }) {
  const tuning = devTuning({}, { applied: false });
  edit = useTuningEdit("clu_test", tuning, paused);
  return <ConfirmChange edit={{ ...edit, confirming: true }} tuning={tuning} paused={paused} />;
}

function apiOf(phase: Cluster["status"]["phase"]): FakeApi {
  const api = new FakeApi();
  const input = { cluster_id: "clu_test" };
  api.queryClient.setQueryData(api.trpc.tuning.get.queryKey(input), devTuning());
  const cluster = awsCluster({ status: { phase } });
  api.queryClient.setQueryData(api.trpc.cluster.get.queryKey(input), cluster);
  return api;
}

/** The message once the API has stored a change that no broker has yet. */
async function notice(): Promise<unknown> {
  await vi.waitFor(() => expect(notifications.show).toHaveBeenCalled());
  return vi.mocked(notifications.show).mock.lastCall?.[0].message;
}

beforeEach(() => {
  reset();
  vi.mocked(notifications.show).mockClear();
});

test("a change of a paused cluster is said to apply when it is resumed", async () => {
  const html = apiOf("PAUSED").render(<Review paused />);
  expect(html).toContain("Valid. The cluster is paused; the values apply when it is resumed.");
  press("Apply");
  expect(await notice()).toBe("Saved. The cluster is paused; the values apply when it is resumed.");
});

test("a change that a silent broker has yet to get is said to wait for it", async () => {
  const html = apiOf("RUNNING").render(<Review paused={false} />);
  expect(html).toContain("The broker does not respond; it gets the values when it is back.");
  press("Apply");
  expect(await notice()).toBe("Saved. The broker gets the new values when it responds.");
});

test("so is a revert", async () => {
  expect(apiOf("PAUSED").render(REVERT)).toContain("The cluster is paused. The earlier values");
  press("Revert");
  expect(await notice()).toBe(
    "Saved. The cluster is paused; the earlier values apply when it is resumed.",
  );
  vi.mocked(notifications.show).mockClear();
  expect(apiOf("RUNNING").render(REVERT)).toContain("restored without a restart");
  press("Revert");
  expect(await notice()).toBe("Saved. The broker gets the earlier values when it responds.");
});

test("a revert says where the value that it returns to is the default", () => {
  const html = apiOf("RUNNING").render(REVERT);
  const line = (knob: string) => html.split("data-change=").find((part) => part.includes(knob));
  expect(line("block_cache_bytes")).toMatch(/64 MiB<.*128 MiB<.*\(the default\)/);
  expect(line("wal_cache_bytes")).toMatch(/64 MiB<.*48 MiB</);
  expect(line("wal_cache_bytes")).not.toContain("(the default)");
});
