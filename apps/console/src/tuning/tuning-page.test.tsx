import { expect, test, vi } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { devTuning } from "./tuning.fixture.ts";
import { TuningPage } from "./tuning-page.tsx";

const range = { from: 1_795_000_000_000, to: 1_795_000_900_000 };

vi.mock("next/navigation", () => ({
  usePathname: () => "/clusters/clu_test/tuning",
  useRouter: () => ({ replace: () => undefined }),
  useSearchParams: () => new URLSearchParams({ from: String(range.from), to: String(range.to) }),
}));

function shown(): string {
  const api = new FakeApi();
  api.queryClient.setQueryData(
    api.trpc.tuning.get.queryKey({ cluster_id: "clu_test" }),
    devTuning(),
  );
  const answer = { ...range, step_seconds: 4, newest_at: range.to, series: [] };
  api.queryClient.setQueryData(["metrics", "clu_test", range, 4], answer);
  return api.render(<TuningPage clusterId="clu_test" />);
}

test("charts stand beside their knobs, with one download and one way back to the live view", () => {
  const html = shown();
  expect(html.match(/as a table"/g)?.length).toBeGreaterThan(3);
  expect(html.match(/Download CSV/g)).toHaveLength(1);
  expect(html.match(/Reset zoom/g)).toHaveLength(1);
});
