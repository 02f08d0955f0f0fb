import { expect, test } from "vitest";
import { resource, snapshotText, stackOf, statements } from "../../../test/stack-fixture.ts";
import { EncryptionKey } from "./encryption-key.ts";

const PROVISIONER = "arn:aws:iam::111122223333:role/millrace/provisioner";

function key(isProtected = true) {
  return stackOf((scope) => {
    new EncryptionKey(scope, "encryption", {
      name: "test",
      description: "Test",
      accountId: "111122223333",
      region: "eu-central-1",
      logGroup: "/millrace/test",
      provisionerRoleArn: PROVISIONER,
      protected: isProtected,
    });
  });
}

test("a key is what the snapshot shows", async () => {
  await expect(snapshotText(key())).toMatchFileSnapshot("encryption-key.snap");
});

test("the account administers it, and CloudWatch uses it for one log group", () => {
  const [account, provisioner, logs, ...others] = statements(resource(key(), "aws_kms_key"));
  expect(others).toEqual([]);
  expect(account).toMatchObject({ Principal: { AWS: "arn:aws:iam::111122223333:root" } });
  expect(provisioner).toMatchObject({ Principal: { AWS: PROVISIONER } });
  expect(logs).toMatchObject({
    Principal: { Service: "logs.eu-central-1.amazonaws.com" },
    Condition: {
      ArnEquals: {
        "kms:EncryptionContext:aws:logs:arn":
          "arn:aws:logs:eu-central-1:111122223333:log-group:/millrace/test",
      },
    },
  });
});

test("it turns every year, and goes with the purge alone", () => {
  expect(resource(key(), "aws_kms_key")).toMatchObject({
    enable_key_rotation: true,
    deletion_window_in_days: 7,
    lifecycle: { prevent_destroy: true },
  });
  expect(resource(key(false), "aws_kms_key").lifecycle).toEqual({ prevent_destroy: false });
});
