/** A custom role in a real browser: created, given to a member, changed, and deleted. */
import { expect, type Page } from "@playwright/test";
import {
  createCluster,
  credentials,
  deleteCluster,
  rest,
  type TestCluster,
  unique,
} from "../product.ts";
import { test } from "./first-try-fails.ts";
import { checkPage, complaintsOf } from "./page-check.ts";
import { joinByInvitation, signIn } from "./sign-in.ts";

test.use({ baseURL: credentials.consoleUrl });

let cluster: TestCluster;

test.beforeAll(async () => {
  cluster = await createCluster(unique("roles"));
});

test.afterAll(async () => {
  await deleteCluster(cluster.id);
});

test("a custom role is created, given to a member, changed, and deleted", async ({
  page,
  browser,
}) => {
  const complaints = complaintsOf(page);
  const role = unique("topic manager");
  const email = `${unique("manager")}@example.com`;
  const dialog = page.getByRole("dialog");
  const row = page.locator(`[data-role="${role}"]`);
  const context = await browser.newContext({ baseURL: credentials.consoleUrl });
  const guest = await context.newPage();
  const guestComplaints = complaintsOf(guest);
  await joinByInvitation(guest, email);
  // An open page would keep requesting what only the earlier role allowed.
  await guest.goto("about:blank");
  await signIn(page);

  await test.step("an owner creates a role from permissions", async () => {
    await page.goto("/settings/members");
    await openTab(page, "Roles");
    await page.getByRole("button", { name: "Create role" }).first().click();
    await dialog.getByRole("button", { name: "Create", exact: true }).click();
    await expect(dialog.getByText("Enter a name")).toBeVisible();
    await expect(dialog.getByText("Choose at least one permission")).toBeVisible();
    await dialog.getByLabel("Name").fill(role);
    await dialog.getByLabel("Description").fill("Creates and deletes topics");
    await choose(page, "cluster:read", "topic:read", "topic:write");
    await checkPage(page, "create-role");
    await dialog.getByRole("button", { name: "Create", exact: true }).click();
    await expect(row).toContainText(
      "account:read, account:write, cluster:read, topic:read, topic:write",
    );
    await expect(row).toContainText("Creates and deletes topics");
    await checkPage(page, "roles");
  });

  await test.step("a name is used once", async () => {
    await page.getByRole("button", { name: "Create role" }).click();
    await dialog.getByLabel("Name").fill(role.toUpperCase());
    await choose(page, "topic:read");
    await dialog.getByRole("button", { name: "Create", exact: true }).click();
    await expect(dialog.getByRole("alert")).toContainText(/already exists/);
    await checkPage(page, "create-role-taken");
    await dialog.getByRole("button", { name: "Cancel" }).click();
  });

  await test.step("a member gets the role", async () => {
    await giveRole(page, email, role);
    await expect(page.locator(`[data-member="${email}"]`)).toContainText(role);
    await checkPage(page, "member-with-custom-role");
  });

  await test.step("the member may do what the role allows", async () => {
    await guest.goto("/clusters");
    await expect(guest.getByRole("link", { name: cluster.name })).toBeVisible();
    expect(guestComplaints, "the list asks for nothing that the role does not allow").toEqual([]);
    await guest.getByRole("link", { name: cluster.name }).click();
    await openTab(guest, "Topics");
    await createTopicAs(guest, "orders");
    await expect(guest.getByRole("link", { name: "orders", exact: true })).toBeVisible();
  });

  await test.step("what the role does not allow is hidden or explained", async () => {
    await guest.goto("/clusters");
    await expect(guest.getByRole("link", { name: cluster.name })).toBeVisible();
    await expect(guest.getByRole("link", { name: "Create cluster" })).toHaveCount(0);
    await expect(guest.getByRole("link", { name: "Audit log" })).toHaveCount(0);
    await guest.goto(`/clusters/${cluster.id}/groups`);
    await expect(guest.getByRole("main").getByRole("alert")).toContainText(
      `The role ${role} does not grant group:read.`,
    );
    await checkPage(guest, "custom-role-groups");
    for (const path of ["members", "roles", "access-review"]) {
      await guest.goto(`/settings/${path}`);
      await expect(guest.getByRole("heading", { name: "No permission" })).toBeVisible();
      await expect(guest.getByRole("main").getByRole("alert")).toHaveCount(0);
    }
    await checkPage(guest, "custom-role-denied");
  });

  await test.step("a change of the role takes effect immediately", async () => {
    await guest.goto(`/clusters/${cluster.id}/topics`);
    await guest.getByRole("button", { name: "Create topic" }).click();
    await openTab(page, "Roles");
    await page.getByRole("button", { name: `Edit role ${role}` }).click();
    await dialog.getByLabel("Description").fill("Reads topics");
    // Another click takes a chosen permission away.
    await choose(page, "topic:write");
    await checkPage(page, "edit-role");
    await dialog.getByRole("button", { name: "Save" }).click();
    await expect(row).toContainText("Reads topics");
    await expect(row).not.toContainText("topic:write");
    await guest.getByRole("dialog").getByLabel("Name").fill("payments");
    await guest.getByRole("dialog").getByRole("button", { name: "Create" }).click();
    await expect(guest.getByRole("dialog").getByRole("alert")).toContainText(
      `The role ${role} does not grant topic:write.`,
    );
    await guest.reload();
    await expect(guest.getByRole("link", { name: "orders", exact: true })).toBeVisible();
    await expect(guest.getByRole("button", { name: "Create topic" })).toHaveCount(0);
    await expect(guest.getByRole("button", { name: "Delete topic orders" })).toHaveCount(0);
  });

  await test.step("a role that a member has is not deleted", async () => {
    await confirmDeletion(page, role);
    await expect(dialog.getByRole("alert")).toContainText(
      `1 member has the role ${role}. Give them another role first.`,
    );
    await checkPage(page, "delete-role-in-use");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await expect(row).toBeVisible();
  });

  await test.step("without members the role is deleted", async () => {
    await giveRole(page, email, /^Viewer/);
    await expect(page.locator(`[data-member="${email}"]`)).toContainText("viewer");
    await openTab(page, "Roles");
    await confirmDeletion(page, role);
    await expect(dialog).toHaveCount(0);
    await expect(row).toHaveCount(0);
    await guest.goto("/settings/members");
    await expect(guest.locator(`[data-member="${email}"]`)).toContainText("You");
  });

  await test.step("the audit log has every change", async () => {
    await page.getByRole("link", { name: "Audit log" }).click();
    for (const method of ["role.create", "member.update", "role.update", "role.delete"]) {
      await expect(page.locator(`[data-audit="${method}"]`).first()).toBeVisible();
    }
  });

  await removeMember(email);
  expect(complaints).toEqual([]);
  // What the role does not allow is refused with 403, which the browser reports.
  expect(guestComplaints.filter((each) => !each.includes("status of 403"))).toEqual([]);
  await context.close();
});

async function openTab(page: Page, name: string): Promise<void> {
  await page.getByRole("tab", { name, exact: true }).click();
}

/** Clicks permissions of the open dialog, and closes their list. */
async function choose(page: Page, ...permissions: string[]): Promise<void> {
  const field = page.getByRole("dialog").getByLabel("Permissions").first();
  await field.click();
  for (const permission of permissions) {
    await page.getByRole("option", { name: permission, exact: true }).click();
  }
  await field.press("Tab");
  await expect(page.getByRole("option")).toHaveCount(0);
}

async function giveRole(page: Page, email: string, role: string | RegExp): Promise<void> {
  await openTab(page, "Members");
  await page.getByRole("button", { name: `Change the role of ${email}` }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("combobox", { name: "Role" }).click();
  await page.getByRole("option", { name: role }).click();
  await dialog.getByRole("button", { name: "Change role" }).click();
  await expect(dialog).toHaveCount(0);
}

async function createTopicAs(page: Page, name: string): Promise<void> {
  await page.getByRole("button", { name: "Create topic" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill(name);
  await dialog.getByRole("button", { name: "Create" }).click();
  await expect(dialog).toHaveCount(0);
}

async function confirmDeletion(page: Page, role: string): Promise<void> {
  await page.getByRole("button", { name: `Delete role ${role}` }).click();
  await page.getByLabel(`Type ${role} to confirm`).fill(role);
  await page.getByRole("button", { name: "Delete role", exact: true }).click();
}

async function removeMember(email: string): Promise<void> {
  const { body } = await rest("GET", "/v1/members?page_size=1000");
  const member = body.items.find((each: { email: string }) => each.email === email);
  const { status } = await rest("DELETE", `/v1/members/${member.id}`);
  expect(status).toBe(204);
}
