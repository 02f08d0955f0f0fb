import { expect, test } from "vitest";
import { resource, snapshotText, stackOf, statements } from "../../../test/stack-fixture.ts";
import { DataBucket } from "./data-bucket.ts";

function bucket(isProtected = true) {
  return stackOf((scope) => {
    new DataBucket(scope, "data", {
      name: "test-data",
      kmsKeyArn: "arn:aws:kms:eu-central-1:111122223333:key/1",
      protected: isProtected,
    });
  });
}

test("a bucket is what the snapshot shows", async () => {
  await expect(snapshotText(bucket())).toMatchFileSnapshot("data-bucket.snap");
});

test("nobody without TLS, and nobody from outside, reaches an object", () => {
  const stack = bucket();
  const policy = statements(resource(stack, "aws_s3_bucket_policy"));
  expect(policy.find(({ Sid }) => Sid === "TlsOnly")).toMatchObject({
    Effect: "Deny",
    Principal: "*",
    Action: "s3:*",
    Resource: ["arn:aws:s3:::test-data", "arn:aws:s3:::test-data/*"],
    Condition: { Bool: { "aws:SecureTransport": "false" } },
  });
  expect(policy.find(({ Sid }) => Sid === "NewTlsOnly")?.Condition).toEqual({
    NumericLessThan: { "s3:TlsVersion": "1.2" },
  });
  const closed = resource(stack, "aws_s3_bucket_public_access_block");
  for (const way of [
    "block_public_acls",
    "block_public_policy",
    "ignore_public_acls",
    "restrict_public_buckets",
  ])
    expect(closed[way]).toBe(true);
});

test("an upload that was given up is taken away", () => {
  const { rule } = resource(bucket(), "aws_s3_bucket_lifecycle_configuration");
  expect(rule).toEqual([
    expect.objectContaining({
      status: "Enabled",
      abort_incomplete_multipart_upload: [{ days_after_initiation: 3 }],
    }),
  ]);
});

test("only the purge may empty and destroy it", () => {
  expect(resource(bucket(), "aws_s3_bucket")).toMatchObject({
    force_destroy: false,
    lifecycle: { prevent_destroy: true },
  });
  expect(resource(bucket(false), "aws_s3_bucket")).toMatchObject({
    force_destroy: true,
    lifecycle: { prevent_destroy: false },
  });
});
