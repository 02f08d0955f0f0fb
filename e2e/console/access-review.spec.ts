/** An access review in a real browser: looked at, downloaded, recorded, and found in the audit log. */
import { readFile } from "node:fs/promises";
import { expect, type Page } from "@playwright/test";
import { credentials, rest, unique } from "../product.ts";
import { test } from "./first-try-fails.ts";
import { checkPage, complaintsOf } from "./page-check.ts";
import { joinByInvitation, signIn } from "./sign-in.ts";

test.use({ baseURL: credentials.consoleUrl });

const PATH = "/settings/access-review";
/** What a try created, newest last. */
let created: string[] = [];

test.afterEach(async () => {
  for (const path of created.reverse()) await rest("DELETE", path);
  created = [];
});

test("every way in is reviewed, downloaded, recorded, and in the audit log", async ({
  page,
  browser,
}) => {
  const complaints = complaintsOf(page);
  const context = await browser.newContext({ baseURL: credentials.consoleUrl });
  const guest = await context.newPage();
  const guestComplaints = complaintsOf(guest);
  const member = `${unique("member")}@example.com`;
  const invited = `${unique("invited")}@example.com`;
  const program = unique("deploy");
  const key = unique("narrow");
  // Outside of it, Next.js announces pages as an alert.
  const alert = page.getByRole("main").getByRole("alert");

  await joinByInvitation(guest, member);
  const { body: members } = await rest("GET", "/v1/members?page_size=1000");
  const { id } = members.items.find(({ email }: { email: string }) => email === member);
  created.push(`/v1/members/${id}`);
  const account = await create("/v1/service-accounts", { name: program, role: "operator" });
  const { secret } = await post(`/v1/service-accounts/${account.id}/keys`, { name: "ci" });
  const expiry = { expires_at: new Date(Date.now() + 86_400_000).toISOString() };
  await create("/v1/api-keys", { name: key, permissions: ["topic:read"], ...expiry });
  await create("/v1/invitations", { email: invited });
  await signIn(page);

  await test.step("each way in is listed, risky and unused ones are marked", async () => {
    await page.getByRole("link", { name: "Settings" }).click();
    await page.getByRole("tab", { name: "Access review" }).click();
    await expectAccess(page, credentials.email, ["Member", "Owner", "No second factor"]);
    await expectAccess(page, member, ["Member", "viewer", "password", "No second factor"]);
    await expectAccess(page, program, ["Service account", "operator", "Never used"]);
    await expectAccess(page, `${program}/ci`, ["API key", "operator", "Never used"]);
    await expectAccess(page, key, ["API key, expires", "Only topic:read", "Never used"]);
    await expectAccess(page, invited, ["Invitation, expires", "viewer"]);
    await checkPage(page, "access-review");
  });

  await test.step("those without findings can be hidden", async () => {
    const only = page.getByRole("switch", { name: /^Only those with findings/ });
    await only.click();
    await expect(accessOf(page, invited)).toHaveCount(0);
    await expect(accessOf(page, key)).toBeVisible();
    await only.click();
    await expect(accessOf(page, invited)).toBeVisible();
  });

  await test.step("a key that was used is not marked any more", async () => {
    const used = await rest("GET", "/v1/clusters", undefined, {
      authorization: `Bearer ${secret}`,
    });
    expect(used.status).toBe(200);
    await expect(async () => {
      await page.reload();
      await expect(accessOf(page, program)).toBeVisible();
      await expect(accessOf(page, program)).not.toContainText("Never used", { timeout: 1_000 });
    }).toPass({ timeout: 60_000 });
    await expect(accessOf(page, `${program}/ci`)).not.toContainText("Never used");
    await expect(accessOf(page, key)).toContainText("Never used");
  });

  await test.step("the list is downloaded as CSV", async () => {
    const download = page.waitForEvent("download");
    await page.getByRole("link", { name: "Export as CSV" }).click();
    const file = await download;
    expect(file.suggestedFilename()).toBe("access-review.csv");
    const [header, ...lines] = (await readFile(await file.path(), "utf8")).trimEnd().split("\r\n");
    expect(header).toMatch(/^kind,id,name,role,.*,findings,complete$/);
    const lineOf = (name: string) => lines.filter((line) => line.split(",")[2] === name).join();
    expect(lineOf(member)).toMatch(/^member,.*,viewer,.*,no_second_factor,true$/);
    expect(lineOf(program)).toMatch(/^service_account,.*,operator,.*,false,,true$/);
    expect(lineOf(key)).toMatch(/^api_key,.*,viewer,.*topic:read,.*,never_used,true$/);
    expect(lineOf(invited)).toMatch(/^invitation,.*,viewer,.*,false,,true$/);
  });

  await test.step("what nobody has looked at is not recorded as reviewed", async () => {
    const before = (await rest("GET", "/v1/access-review")).body;
    const late = unique("late");
    await create("/v1/api-keys", { name: late });
    await page.getByRole("button", { name: "Mark as reviewed" }).click();
    await expect(alert).toContainText("The access has changed since this page loaded it.");
    await expectAccess(page, late, ["API key", "Never used"]);
    await checkPage(page, "access-review-changed");
    const after = (await rest("GET", "/v1/access-review")).body;
    expect(after.last_review).toEqual(before.last_review);
  });

  await test.step("the review is recorded with the digest of what was shown", async () => {
    const shown = (await rest("GET", "/v1/access-review")).body;
    await page.getByRole("button", { name: "Mark as reviewed" }).click();
    const lastId = async () => (await rest("GET", "/v1/access-review")).body.last_review?.id;
    await expect.poll(lastId).not.toBe(shown.last_review?.id);
    await expect(alert).toHaveCount(0);
    await expect(page.getByText(`Last reviewed just now by ${credentials.email}`)).toBeVisible();
    const recorded = (await rest("GET", "/v1/access-review")).body.last_review;
    expect(recorded).toMatchObject({ digest: shown.digest, complete: true });
    expect(recorded.counts.total).toBe(shown.items.length);
    await checkPage(page, "access-reviewed");

    await page.getByRole("link", { name: "Audit log" }).click();
    const event = page.locator('[data-audit="accessReview.create"]', { hasText: "Succeeded" });
    await event.first().getByRole("button").click();
    await expect(page.getByText(shown.digest).first()).toBeVisible();
    await checkPage(page, "access-review-audit");
  });

  await test.step("a role that may not review is told who may", async () => {
    await guest.goto(PATH);
    await expect(guest.getByRole("heading", { name: "No permission" })).toBeVisible();
    await expect(guest.getByText("access:review")).toBeVisible();
    await expect(guest.getByRole("button", { name: "Mark as reviewed" })).toHaveCount(0);
  });

  expect(complaints).toEqual([]);
  // The page may ask before it knows the role, which the browser reports.
  expect(guestComplaints.filter((each) => !each.includes("status of 403"))).toEqual([]);
  await context.close();
});

function accessOf(page: Page, name: string) {
  return page.locator(`[data-access="${name}"]`);
}

async function expectAccess(page: Page, name: string, texts: readonly string[]): Promise<void> {
  for (const text of texts) await expect(accessOf(page, name)).toContainText(text);
}

async function post(path: string, body: object) {
  const answer = await rest("POST", path, body);
  expect(answer.status, JSON.stringify(answer.body)).toBe(201);
  return answer.body;
}

/** Creates what the end of the try deletes again. */
async function create(path: string, body: object) {
  const made = await post(path, body);
  created.push(`${path}/${made.id}`);
  return made;
}
