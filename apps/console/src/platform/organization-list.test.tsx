import { beforeEach, expect, test, vi } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { OrganizationList } from "./organization-list.tsx";
import { PlatformFailure } from "./platform-api.ts";

vi.mock("next/navigation", () => ({ useRouter: () => ({ replace: () => {} }) }));

let api: FakeApi;
beforeEach(() => {
  api = new FakeApi();
  // What failed stays failed when the page is rendered.
  api.queryClient.setDefaultOptions({ queries: { retryOnMount: false } });
});

/** The page after its request failed like this. */
async function show(failure: Error): Promise<string> {
  await api.queryClient.prefetchInfiniteQuery({
    queryKey: ["platform", "organizations"],
    queryFn: () => Promise.reject(failure),
    initialPageParam: "",
    retry: false,
  });
  return api.render(<OrganizationList />);
}

test("says what the API refused, and not what the browser calls a lost connection", async () => {
  const html = await show(new PlatformFailure(429, "Too many requests."));
  expect(html).toContain("Cannot load the organizations");
  expect(html).toContain("Too many requests.");
  const offline = await show(new TypeError("Failed to fetch"));
  expect(offline).toContain("Cannot reach the API.");
  expect(offline).not.toContain("Failed to fetch");
});

test("tells everyone else that it is for platform operators", async () => {
  const html = await show(new PlatformFailure(404, "There is no GET /api/platform/organizations."));
  expect(html).toContain("This page is for platform operators.");
  expect(html).not.toContain("Cannot load the organizations");
});
