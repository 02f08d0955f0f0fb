import { expect, test } from "vitest";
import { reference, resource, snapshotText, stackOf } from "../../../test/stack-fixture.ts";
import { ADMIN_TOKEN_VARIABLE, AdminToken } from "./admin-token.ts";

const stack = stackOf((scope) => {
  new AdminToken(scope, "admin-token", {
    name: "test/admin-token",
    description: "Test",
    kmsKeyArn: "arn:aws:kms:eu-central-1:111122223333:key/1",
  });
});

test("a token is what the snapshot shows", async () => {
  await expect(snapshotText(stack)).toMatchFileSnapshot("admin-token.snap");
});

test("its value is in no state: an ephemeral variable fills a write-only attribute", () => {
  expect(stack.variable?.[ADMIN_TOKEN_VARIABLE]).toMatchObject({
    ephemeral: true,
    sensitive: true,
    type: "string",
  });
  const version = resource(stack, "aws_secretsmanager_secret_version");
  expect(version.secret_string_wo).toBe(reference(`var.${ADMIN_TOKEN_VARIABLE}`));
  expect(version).not.toHaveProperty("secret_string");
});

test("its name is free at once when the cluster goes, for one that is restored", () => {
  expect(resource(stack, "aws_secretsmanager_secret").recovery_window_in_days).toBe(0);
});
