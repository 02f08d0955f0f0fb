import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { databaseAuthority } from "./database-authority.ts";

const OF_FRANKFURT = readFileSync(
  new URL("../../test/database-authority.pem", import.meta.url),
  "utf8",
);

test("the authority of the region is chosen from the bundle", () => {
  const bundle = `# of all regions\n${OF_FRANKFURT.replaceAll("\n", "\r\n")}`;
  expect(databaseAuthority(bundle, "eu-central-1")).toBe(OF_FRANKFURT);
});

test.each([
  ["no bundle", undefined, "MILLRACE_AWS_DATABASE_CA is not set"],
  ["a bundle without the region", OF_FRANKFURT, "no certificate of Amazon RDS us-east-1"],
])("%s is an installation's mistake", (_, bundle, message) => {
  expect(() => databaseAuthority(bundle, "us-east-1")).toThrow(
    expect.objectContaining({ code: "unconfigured", message: expect.stringContaining(message) }),
  );
});
