/** Users, ACLs and quotas of a cluster in a real browser. */
import { Admin } from "@platformatic/kafka";
import { expect, type Page } from "@playwright/test";
import {
  createCluster,
  createTopic,
  credentials,
  deleteCluster,
  rest,
  type TestCluster,
  unique,
} from "../product.ts";
import { test } from "./first-try-fails.ts";
import { checkPage, complaintsOf } from "./page-check.ts";
import { signIn } from "./sign-in.ts";

test.use({ baseURL: credentials.consoleUrl });

let cluster: TestCluster;

test.beforeAll(async () => {
  cluster = await createCluster(unique("access"));
});

test.afterAll(async () => {
  await deleteCluster(cluster.id);
});

test("create a user who can sign in, rotate the password, set a quota, delete both", async ({
  page,
}) => {
  const complaints = complaintsOf(page);
  await signIn(page);
  const dialog = page.getByRole("dialog");
  let password = "";

  await test.step("a user is created, and its password is shown once", async () => {
    await page.goto(`/clusters/${cluster.id}/access`);
    await page.getByRole("button", { name: "Create user" }).click();
    await dialog.getByLabel("Name").fill("not a name");
    await dialog.getByRole("button", { name: "Create", exact: true }).click();
    await expect(dialog.getByText(/Use 1 to 128 letters/)).toBeVisible();
    await dialog.getByLabel("Name").fill("alice");
    await checkPage(page, "create-user");
    await dialog.getByRole("button", { name: "Create", exact: true }).click();
    await expect(dialog.getByText("It is not shown again.")).toBeVisible();
    password = await secretOf(page);
    expect(password.length).toBeGreaterThanOrEqual(32);
    await checkPage(page, "user-password");
    await page.keyboard.press("Escape");
    await dialog.getByRole("button", { name: "Done" }).click();
    await expect(page.getByRole("row", { name: /alice/ })).toContainText("SCRAM-SHA-512");
    await expect(page.getByText(password)).toHaveCount(0);
    await checkPage(page, "users");
    await expect(topicsSeenBy("alice", password)).resolves.toEqual([]);
  });

  await test.step("a rotation replaces the password", async () => {
    await page.getByRole("button", { name: "Actions for user alice" }).click();
    await page.getByRole("menuitem", { name: "Rotate password" }).click();
    await expect(dialog.getByLabel(/SCRAM-SHA-256 only/)).toBeVisible();
    await checkPage(page, "rotate-user");
    await dialog.getByRole("button", { name: "Rotate" }).click();
    const next = await secretOf(page);
    await dialog.getByRole("button", { name: "Done" }).click();
    expect(next).not.toBe(password);
    await expect(topicsSeenBy("alice", next)).resolves.toEqual([]);
    await expect(topicsSeenBy("alice", password)).rejects.toThrow();
    password = next;
  });

  await test.step("a quota is set, changed and deleted", async () => {
    await page.getByRole("tab", { name: "Quotas" }).click();
    await page.getByRole("button", { name: "Set quota" }).click();
    await dialog.getByRole("button", { name: "Save" }).click();
    await expect(dialog.getByText("Enter a user, a client ID or both")).toBeVisible();
    await dialog.getByLabel("User").fill("alice");
    await dialog.getByLabel("Produce, MiB/s").fill("1.5");
    await checkPage(page, "set-quota");
    await dialog.getByRole("button", { name: "Save" }).click();
    const row = page.getByRole("row", { name: /user alice/ });
    await expect(row).toContainText("1.5 MiB/s");
    await page.getByRole("button", { name: "Edit quota of user alice" }).click();
    await dialog.getByLabel("Consume, MiB/s").fill("2");
    await dialog.getByRole("button", { name: "Save" }).click();
    await expect(row).toContainText("2 MiB/s");
    await page.setViewportSize({ width: 390, height: 844 });
    await checkPage(page, "quotas-narrow");
    await page.setViewportSize({ width: 1360, height: 860 });
    await checkPage(page, "quotas");
    await page.getByRole("button", { name: "Delete quota of user alice" }).click();
    await dialog.getByLabel("Type alice to confirm").fill("alice");
    await dialog.getByRole("button", { name: "Delete quota" }).click();
    await expect(page.getByRole("heading", { name: "No quotas yet" })).toBeVisible();
  });

  await test.step("an ACL lets the user see a topic, and the test names it", async () => {
    await createTopic(cluster.id, "orders", 1);
    await expect(topicsSeenBy("alice", password)).resolves.toEqual([]);
    await page.getByRole("tab", { name: "ACLs" }).click();
    await page.getByRole("button", { name: "Allow a client" }).click();
    await dialog.getByText("Consumer", { exact: true }).click();
    await dialog.getByLabel("Principal").fill("User:alice");
    await dialog.getByLabel("Topic", { exact: true }).fill("orders");
    await dialog.getByLabel("Consumer group").fill("billing");
    await checkPage(page, "allow-client");
    await dialog.getByRole("button", { name: "Allow", exact: true }).click();
    await expect(
      page.getByRole("row", { name: /User:alice allow read topic orders/ }),
    ).toBeVisible();
    await expect(topicsSeenBy("alice", password)).resolves.toEqual(["orders"]);
    const tester = page.getByRole("region", { name: "Test a principal" });
    await tester.getByLabel("Tested principal").fill("User:alice");
    await tester.getByLabel("Name").fill("orders");
    await tester.getByRole("button", { name: "Test" }).click();
    await expect(tester.getByRole("status")).toContainText(
      "Allow read on topic orders to User:alice",
    );
    await tester.getByLabel("Tested principal").fill("User:bob");
    await expect(tester.getByRole("status")).toHaveCount(0);
    await tester.getByRole("button", { name: "Test" }).click();
    await expect(tester.getByRole("status")).toContainText("Denied");
    await checkPage(page, "acls");
    await page.setViewportSize({ width: 390, height: 844 });
    await checkPage(page, "acls-narrow");
    await page.setViewportSize({ width: 1360, height: 860 });
    await page
      .getByRole("button", { name: "Delete ACL: Allow read on topic orders to User:alice" })
      .click();
    await dialog.getByLabel("Type User:alice to confirm").fill("User:alice");
    await dialog.getByRole("button", { name: "Delete ACL" }).click();
    await expect(page.getByRole("row", { name: /User:alice allow read topic orders/ })).toHaveCount(
      0,
    );
  });

  await test.step("the user is deleted, and cannot sign in any more", async () => {
    await page.getByRole("tab", { name: "Users" }).click();
    await page.getByRole("button", { name: "Actions for user alice" }).click();
    await page.getByRole("menuitem", { name: "Delete user" }).click();
    await dialog.getByLabel("Type alice to confirm").fill("alice");
    await dialog.getByRole("button", { name: "Delete user" }).click();
    await expect(page.getByRole("row", { name: /alice/ })).toHaveCount(0);
    await expect(topicsSeenBy("alice", password)).rejects.toThrow();
  });

  expect(complaints).toEqual([]);
});

async function secretOf(page: Page): Promise<string> {
  const secret = page.getByRole("dialog").locator("[data-secret]");
  await expect(secret).toBeVisible();
  return (await secret.textContent()) ?? "";
}

/** Signs in at the cluster's TLS endpoint, as any client does, and lists its topics. */
async function topicsSeenBy(username: string, password: string): Promise<string[]> {
  const { body } = await rest("GET", `/v1/clusters/${cluster.id}`);
  const tls = body.status.endpoints.find(({ protocol }: Endpoint) => protocol === "SASL_SSL");
  const ca = await fetch(new URL(`/v1/clusters/${cluster.id}/ca-certificate`, credentials.apiUrl), {
    headers: { authorization: `Bearer ${credentials.apiKey}` },
  });
  const admin = new Admin({
    clientId: "access-journey",
    bootstrapBrokers: tls.bootstrap_servers.split(","),
    tls: { ca: await ca.text() },
    sasl: { mechanism: "SCRAM-SHA-512", username, password },
    retries: 0,
  });
  try {
    return await admin.listTopics();
  } finally {
    await admin.close();
  }
}

interface Endpoint {
  readonly protocol: string;
}
