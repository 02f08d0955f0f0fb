import type { ReactNode } from "react";
import { beforeEach, expect, test, vi } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { awsCluster } from "../cluster/cluster.fixture.ts";
import { PauseButton } from "../cluster/pause-button.tsx";
import { RecoverButton } from "../cluster/recover-button.tsx";
import { labels, press, reset } from "../shell/press.fixture.tsx";

vi.mock("@mantine/core", async (original) => ({
  ...(await original<object>()),
  Button: (await import("../shell/press.fixture.tsx")).Button,
}));
vi.mock("@mantine/hooks", async (original) => ({
  ...(await original<object>()),
  useDisclosure: (await import("../shell/press.fixture.tsx")).useDisclosure,
}));
vi.mock("../shell/review-dialog.tsx", async () => ({
  ReviewDialog: (await import("../shell/press.fixture.tsx")).ReviewDialog,
}));
vi.mock("next/navigation", () => ({ useRouter: () => ({ push: () => {} }) }));

beforeEach(reset);

const RUNNING = <PauseButton cluster={awsCluster()} />;
const endpoints = [
  { name: "kafka", protocol: "PLAINTEXT" as const, bootstrap_servers: "127.0.0.1:9092" },
];
const DEGRADED = (
  <RecoverButton cluster={awsCluster({ status: { phase: "DEGRADED", endpoints } })} />
);

function shown(button: ReactNode, role: "viewer" | "owner", api = new FakeApi()): FakeApi {
  api.signIn(role);
  api.render(button);
  return api;
}

test.each([
  ["Pause", "Pause cluster", "cluster.pause", RUNNING],
  ["Recover", "Plan the recovery", "cluster.recover", DEGRADED],
])(
  "%s opens a review, and only its confirmation starts the operation",
  async (label, confirm, path, button) => {
    const api = shown(button, "owner");
    expect(labels()).toEqual([label]);
    press(label);
    shown(button, "owner", api);
    expect(api.calls).toEqual([]);
    press(confirm);
    await vi.waitFor(() =>
      expect(api.calls).toEqual([{ path, input: { cluster_id: "clu_test" } }]),
    );
  },
);

test.each([RUNNING, DEGRADED])("a viewer gets no button", (button) => {
  shown(button, "viewer");
  expect(labels()).toEqual([]);
});
