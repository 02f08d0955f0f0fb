/** Accounts as people use them: signing in, and joining by invitation. */
import { expect, type Page } from "@playwright/test";
import { credentials, rest } from "../product.ts";

/** Of accounts that the journeys create. */
export const PASSWORD = "a long enough password";

/** Without a second factor this is all that a sign-in needs. */
export async function fillSignIn(page: Page, email: string, password: string): Promise<void> {
  await page.goto("/sign-in");
  await page.getByLabel("Email").fill(email);
  await page.getByRole("textbox", { name: "Password" }).fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
}

/** Leaves the browser signed in as the first owner. */
export async function signIn(page: Page): Promise<void> {
  await fillSignIn(page, credentials.email, credentials.password);
  await expect(page.getByRole("heading", { name: "Clusters", exact: true })).toBeVisible();
}

/** Leaves the browser signed in as a new viewer. */
export async function joinByInvitation(page: Page, email: string): Promise<void> {
  const { token } = (await rest("POST", "/v1/invitations", { email })).body;
  await page.goto(`/invitation#${token}`);
  await page.getByLabel("Your name").fill("New viewer");
  await page.getByRole("textbox", { name: "Password" }).fill(PASSWORD);
  await page.getByRole("button", { name: "Create account and join" }).click();
  await expect(page.getByRole("heading", { name: "Clusters", exact: true })).toBeVisible();
}
