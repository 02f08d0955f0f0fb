/** A site for the tests of one file. */
import { afterAll, beforeAll } from "vitest";
import { AwsSite } from "./aws-site.ts";

const OPEN_MS = 120_000;

/** Opens a site before the tests and closes it after them; gives it to the tests that ask then. */
export function awsSite(): () => AwsSite {
  let site: AwsSite;
  beforeAll(async () => {
    site = await AwsSite.open();
  }, OPEN_MS);
  afterAll(() => site?.close(), OPEN_MS);
  return () => site;
}
