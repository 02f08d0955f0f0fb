import type { ServiceAccount } from "@millrace/contract";
import { expect, test } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { ServiceAccountTable } from "./service-account-table.tsx";

const ACCOUNT: ServiceAccount = {
  ...{ id: "svc_1", name: "deploy", description: "Deployments", role: "owner" },
  ...{ disabled: true, created_at: "2026-11-23T10:00:00Z" },
};

test("offers nothing for an account above the user's role", () => {
  const api = new FakeApi();
  api.signIn("admin");
  const html = api.render(<ServiceAccountTable accounts={[ACCOUNT]} />);
  expect(html).toContain("Disabled");
  expect(html).not.toContain("Create a key for deploy");
});

test("offers keys, enabling and deletion", () => {
  const api = new FakeApi();
  api.signIn("owner");
  const html = api.render(<ServiceAccountTable accounts={[ACCOUNT]} />);
  for (const action of ["Create a key for deploy", "Enable deploy", "Delete deploy"]) {
    expect(html).toContain(action);
  }
});

test("offers nothing to a custom role that has less than the account, even of the same role", () => {
  const api = new FakeApi();
  api.signInWith("apikey:read", "apikey:write");
  const html = api.render(<ServiceAccountTable accounts={[{ ...ACCOUNT, role: "viewer" }]} />);
  expect(html).toContain("deploy");
  expect(html).not.toContain("Create a key for deploy");
});

test("offers what the role grants where the API does not tell permissions yet", () => {
  const api = new FakeApi();
  api.signInToOldApi("admin");
  const account: ServiceAccount = { ...ACCOUNT, role: "admin" };
  expect(api.render(<ServiceAccountTable accounts={[account]} />)).toContain("Delete deploy");
});
