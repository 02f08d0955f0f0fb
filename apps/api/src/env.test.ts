import { afterEach, expect, test, vi } from "vitest";
import { readEnvironment } from "./env.ts";

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

function read(changes: Readonly<Record<string, string>>) {
  vi.stubEnv("DATABASE_URL", "postgres://localhost/millrace");
  vi.stubEnv("MILLRACE_AUTH_SECRET", "a secret of the tests, long enough");
  for (const [name, value] of Object.entries(changes)) vi.stubEnv(name, value);
  let written = "";
  vi.spyOn(process.stderr, "write").mockImplementation((text) => {
    written += text;
    return true;
  });
  vi.spyOn(process, "exit").mockImplementation(() => {
    throw new Error(written);
  });
  return readEnvironment();
}

test("an account on AWS comes with the region of its clusters", () => {
  const MILLRACE_AWS_ROLE_ARN = "arn:aws:iam::123456789012:role/provisioner";
  const none = { MILLRACE_AWS_ROLE_ARN: "", MILLRACE_AWS_REGION: "" };
  expect(read(none).MILLRACE_AWS_REGION).toBeUndefined();
  const region = { MILLRACE_AWS_ROLE_ARN, MILLRACE_AWS_REGION: "eu-west-1" };
  expect(read(region).MILLRACE_AWS_REGION).toBe("eu-west-1");
  expect(() => read({ ...region, MILLRACE_AWS_REGION: "" })).toThrow(
    "MILLRACE_AWS_REGION: must be set with MILLRACE_AWS_ROLE_ARN",
  );
  expect(() => read({ ...region, MILLRACE_AWS_REGION: "mars-1" })).toThrow("eu-central-1");
});
