/** From the page Connect to a record over TLS, as somebody does who pastes what the page shows. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "@playwright/test";
import {
  createCluster,
  credentials,
  deleteCluster,
  type Json,
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
  cluster = await createCluster(unique("secure"));
});

test.afterAll(async () => {
  await deleteCluster(cluster.id);
});

test("download the CA certificate, get a password, and the kcat snippet works", async ({
  page,
}) => {
  const complaints = complaintsOf(page);
  const folder = mkdtempSync(join(tmpdir(), "millrace-connect-"));
  await signIn(page);
  await page.goto(`/clusters/${cluster.id}/connect`);
  await page.getByText("TLS and password", { exact: true }).click();
  await checkPage(page, "connect-tls");

  const download = page.waitForEvent("download");
  await page.getByRole("link", { name: "Download CA certificate" }).click();
  await (await download).saveAs(join(folder, "ca.pem"));

  await page.getByRole("button", { name: "New password for admin" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Set new password" }).click();
  const password = (await dialog.locator("[data-secret]").textContent()) ?? "";
  await checkPage(page, "connect-password");
  await dialog.getByRole("button", { name: "Done" }).click();
  await expect(page.getByText(password)).toHaveCount(0);

  const code = (await page.locator("[data-snippet=code]").textContent()) ?? "";
  expect(complaints).toEqual([]);
  expect(process.env.MILLRACE_KCAT, "the snippet needs kcat: apt-get install kcat").toBeTruthy();
  const pasted = code.replace("USER", "admin").replace("PASSWORD", password);
  const output = execFileSync("sh", ["-c", pasted], { cwd: folder, encoding: "utf8" });
  expect(output).toContain("hello from kcat");
  rmSync(folder, { recursive: true });
});

test("with the plaintext listener turned off, the page shows the secure endpoint only", async ({
  page,
}) => {
  const complaints = complaintsOf(page);
  await signIn(page);
  await page.goto(`/clusters/${cluster.id}/settings`);
  await page.getByRole("switch", { name: "Plaintext listener" }).click();
  await page.getByRole("button", { name: "Review change" }).click();
  const review = page.getByRole("dialog");
  await expect(review.getByText("can no longer connect")).toBeVisible();
  await review.getByRole("button", { name: "Apply" }).click();
  const state = async () => {
    const { phase, endpoints } = (await rest("GET", `/v1/clusters/${cluster.id}`)).body.status;
    return [phase, ...endpoints.map(({ name }: Json) => name)];
  };
  await expect.poll(state, { timeout: 60_000 }).toEqual(["RUNNING", "kafka-tls"]);
  await page.goto(`/clusters/${cluster.id}/connect`);
  await expect(page.getByRole("link", { name: "Download CA certificate" })).toBeVisible();
  await expect(page.getByText("Without TLS")).toHaveCount(0);
  await checkPage(page, "connect-tls-only");
  expect(complaints).toEqual([]);
});
