/** From an invitation to the first message, and what protects an account, in a real browser. */
import { expect } from "@playwright/test";
import {
  addPlatformOperator,
  createCluster,
  createTopic,
  credentials,
  deleteCluster,
  type TestCluster,
  unique,
} from "../product.ts";
import { test } from "./first-try-fails.ts";
import { checkPage, complaintsOf } from "./page-check.ts";
import { fillSignIn, joinByInvitation, PASSWORD, signIn } from "./sign-in.ts";
import { totpCode } from "./totp.ts";

test.use({ baseURL: credentials.consoleUrl });

/** A phone's width. */
const NARROW = { width: 390, height: 844 };

let cluster: TestCluster;

test.beforeAll(async () => {
  cluster = await createCluster(unique("people"));
  await createTopic(cluster.id, "orders", 1);
});

test.afterAll(async () => {
  await deleteCluster(cluster.id);
});

test("a developer is invited, joins, and produces a first message", async ({ page, browser }) => {
  const complaints = complaintsOf(page);
  const email = `${unique("dev")}@example.com`;
  await signIn(page);
  let link = "";

  await test.step("an owner invites somebody and sees the link once", async () => {
    await page.getByRole("link", { name: "Settings" }).click();
    await expect(page.getByRole("heading", { name: "Members" })).toBeVisible();
    await page.getByRole("button", { name: "Invite member" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Email").fill(email);
    await dialog.getByRole("combobox", { name: "Role" }).click();
    await page.getByRole("option", { name: /^Developer/ }).click();
    await checkPage(page, "invite-member");
    await dialog.getByRole("button", { name: "Create invitation" }).click();
    link = (await dialog.locator("[data-secret]").textContent()) ?? "";
    await checkPage(page, "invitation-link");
    await dialog.getByRole("button", { name: "Done" }).click();
    await expect(page.locator(`[data-invitation="${email}"]`)).toContainText("developer");
    await checkPage(page, "members");
  });

  await test.step("the mail outbox shows the text of the invitation once more", async () => {
    await page.getByRole("tab", { name: "Mail outbox" }).click();
    const mail = page.locator(`[data-mail="${email}"]`);
    await mail.getByRole("button", { name: "Show text" }).click();
    const dialog = page.getByRole("dialog");
    await expect(dialog.locator("[data-secret]")).toContainText(link);
    await dialog.getByRole("button", { name: "Done" }).click();
    await expect(mail).toContainText("Shown");
    await expect(mail.getByRole("button")).toHaveCount(0);
    await checkPage(page, "mail-outbox");
    await page.getByRole("tab", { name: "Members" }).click();
  });

  const context = await browser.newContext({ baseURL: credentials.consoleUrl });
  const guest = await context.newPage();
  const guestComplaints = complaintsOf(guest);

  await test.step("the invited person creates an account", async () => {
    await guest.goto(link);
    await expect(guest.getByText(`${email} is invited as developer.`)).toBeVisible();
    expect(guest.url(), "the token is not in the address any more").not.toContain("#");
    await checkPage(guest, "invitation");
    await guest.getByLabel("Your name").fill("Dev");
    await guest.getByRole("textbox", { name: "Password" }).fill(PASSWORD);
    await guest.getByRole("button", { name: "Create account and join" }).click();
    await expect(guest.getByRole("heading", { name: "Clusters", exact: true })).toBeVisible();
  });

  await test.step("what a developer may not do is not offered", async () => {
    await expect(guest.getByRole("link", { name: cluster.name })).toBeVisible();
    await expect(guest.getByRole("link", { name: "Create cluster" })).toHaveCount(0);
    await guest.goto("/settings/members");
    await expect(guest.locator(`[data-member="${email}"]`)).toContainText("You");
    await expect(guest.getByRole("button", { name: "Invite member" })).toHaveCount(0);
    await guest.getByRole("tab", { name: "API keys" }).click();
    await expect(guest.getByRole("heading", { name: "No permission" })).toBeVisible();
  });

  await test.step("a first message is produced and seen", async () => {
    await guest.goto(`/clusters/${cluster.id}/topics`);
    await guest.getByRole("link", { name: "orders", exact: true }).click();
    await guest.getByRole("button", { name: "Produce record" }).click();
    const dialog = guest.getByRole("dialog");
    await dialog.getByLabel("Value, content").fill("hello");
    await dialog.getByRole("button", { name: "Produce" }).click();
    await expect(guest.locator("[data-record]").first()).toContainText("hello");
  });

  await test.step("a removed member is out", async () => {
    await page.reload();
    await page.getByRole("button", { name: `Remove ${email}` }).click();
    await page.getByLabel(`Type ${email} to confirm`).fill(email);
    await page.getByRole("button", { name: "Remove member", exact: true }).click();
    await expect(page.locator(`[data-member="${email}"]`)).toHaveCount(0);
    await guest.goto("/clusters");
    await expect(guest.getByText("You do not belong to any organization.").first()).toBeVisible();
  });

  expect(complaints).toEqual([]);
  // The last step is refused with 403, which the browser reports.
  expect(guestComplaints.filter((each) => !each.includes("status of 403"))).toEqual([]);
  await context.close();
});

test("a platform operator impersonates a member, who sees it in the audit log", async ({
  page,
}) => {
  const complaints = complaintsOf(page);
  const email = `${unique("platform")}@example.com`;
  const password = addPlatformOperator(email);
  const banner = page.getByRole("region", { name: "Impersonation" });

  await test.step("organizations are listed with their clusters", async () => {
    await fillSignIn(page, email, password);
    await expect(page.getByRole("heading", { name: "Organizations" })).toBeVisible();
    const organization = page.locator("[data-organization=first-tenant]");
    await expect(organization).toContainText(cluster.name);
    await checkPage(page, "platform");
    await organization.getByRole("button", { name: "Impersonate" }).click();
  });

  await test.step("every page says who impersonates whom, why and until when", async () => {
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Reason").fill("ticket 4711: no topic can be created");
    await checkPage(page, "impersonate");
    await dialog.getByRole("button", { name: "Begin impersonation" }).click();
    await expect(page.getByRole("heading", { name: "Clusters", exact: true })).toBeVisible();
    await expect(banner).toContainText(`Platform operator ${email} acts as ${credentials.email}`);
    await expect(banner).toContainText("read-only. Reason: ticket 4711: no topic can be created");
    await expect(page.getByRole("link", { name: cluster.name })).toBeVisible();
    await expect(page.getByRole("link", { name: "Create cluster" })).toHaveCount(0);
    await page.getByRole("link", { name: "Audit log" }).click();
    await expect(banner).toBeVisible();
    await expect(
      page.locator('[data-audit="impersonation.begin"]', { hasText: email }),
    ).toBeVisible();
    await checkPage(page, "impersonation");
  });

  await test.step("the button ends it", async () => {
    await banner.getByRole("button", { name: "End impersonation" }).click();
    await expect(page.getByRole("heading", { name: "Organizations" })).toBeVisible();
    await page.goto("/clusters");
    await expect(page).toHaveURL(/platform$/);
  });

  // Nothing of a tenant exists for a platform operator, which the browser reports.
  expect(complaints.filter((each) => !each.includes("status of 404"))).toEqual([]);
});

test("a second factor, sessions, and a new password protect an account", async ({
  page,
  browser,
}) => {
  const complaints = complaintsOf(page);
  const email = `${unique("safe")}@example.com`;
  await joinByInvitation(page, email);
  let key = "";

  await test.step("the second factor is set up", async () => {
    await page.goto("/settings/security");
    const card = page.getByRole("region", { name: "Second factor" });
    await card.getByRole("textbox", { name: "Your password" }).fill(PASSWORD);
    await card.getByRole("button", { name: "Set up second factor" }).click();
    key = (await card.locator("[data-setup-key]").textContent()) ?? "";
    await checkPage(page, "second-factor");
    await card.getByLabel("3. Code from the app").fill(totpCode(key));
    await card.getByRole("button", { name: "Turn on second factor" }).click();
    await expect(card.getByText("On", { exact: true })).toBeVisible();
    await checkPage(page, "security");
  });

  const context = await browser.newContext({ baseURL: credentials.consoleUrl });
  const other = await context.newPage();

  await test.step("a sign-in elsewhere needs a code", async () => {
    await fillSignIn(other, email, PASSWORD);
    await other.getByLabel("Code").fill("000000");
    await other.getByRole("button", { name: "Verify" }).click();
    await expect(other.getByText("Wrong code.")).toBeVisible();
    await checkPage(other, "sign-in-code");
    await other.getByLabel("Code").fill(totpCode(key, 1));
    await other.getByRole("button", { name: "Verify" }).click();
    await expect(other.getByRole("heading", { name: "Clusters", exact: true })).toBeVisible();
  });

  await test.step("the other session is seen and revoked", async () => {
    await page.getByRole("tab", { name: "Sessions" }).click();
    await expect(page.locator("[data-session=current]")).toContainText("This session");
    await expect(page.locator("[data-session=other]").first()).toContainText("Chrome");
    await checkPage(page, "sessions");
    await page.getByRole("button", { name: "Revoke all other sessions" }).click();
    await expect(page.locator("[data-session=other]")).toHaveCount(0);
    await other.goto("/clusters");
    await expect(other).toHaveURL(/sign-in/);
  });

  await test.step("no settings page is wider than a phone", async () => {
    await page.setViewportSize(NARROW);
    for (const path of ["members", "sessions", "security"]) {
      await page.goto(`/settings/${path}`);
      await expect(page.getByRole("tab", { selected: true })).toBeVisible();
      const width = await page.evaluate("document.documentElement.scrollWidth");
      expect(width, path).toBeLessThanOrEqual(NARROW.width);
    }
  });

  expect(complaints).toEqual([]);
  await context.close();
});
