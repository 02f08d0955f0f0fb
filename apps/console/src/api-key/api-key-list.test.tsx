import { expect, test } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { ApiKeyList } from "./api-key-list.tsx";

/** The page for somebody, with one viewer's key that reads clusters and nothing else. */
function show(api: FakeApi): string {
  api.queryClient.setQueryData(api.trpc.apiKey.list.queryKey({ page_size: 200 }), {
    items: [
      {
        ...{ id: "key_1", name: "deploy", role: "viewer" as const, service_account_id: null },
        ...{ hint: "mrk_abc", created_at: "2026-11-23T10:00:00Z", expires_at: null },
        ...{ last_used_at: null, permissions: ["cluster:read" as const], allowed_addresses: [] },
        previous_valid_until: null,
      },
    ],
  });
  return api.render(<ApiKeyList />);
}

test("offers changes of keys that may do no more than the user", () => {
  const api = new FakeApi();
  api.signInWith("apikey:read", "apikey:write", "cluster:read");
  expect(show(api)).toContain("Revoke key deploy");
  api.signInWith("apikey:read", "apikey:write");
  expect(show(api)).toContain("Create key");
  expect(show(api)).not.toContain("Revoke key deploy");
});

test("offers neither new keys nor changes to somebody who may only read them", () => {
  const api = new FakeApi();
  api.signInWith("apikey:read", "cluster:read");
  expect(show(api)).toContain("deploy");
  expect(show(api)).not.toContain("Create key");
  expect(show(api)).not.toContain("Rotate key deploy");
});
