import { expect, test } from "vitest";
import { classOf, type Diagnostic, diagnosticOf, runFailure } from "./diagnostics.ts";

function error(summary: string, detail = "", address?: string): Diagnostic {
  return { severity: "error", summary, detail, address };
}

// Texts as the AWS provider 5.100 and Terraform 1.11 write them.
test.each([
  ["plan_stale", "Saved plan is stale", "The given plan file can no longer be applied"],
  ["busy", "Error acquiring the state lock", "resource temporarily unavailable"],
  [
    "throttled",
    "creating EBS Volume",
    "operation error EC2: CreateVolume, https response error StatusCode: 503, api error RequestLimitExceeded: Request limit exceeded.",
  ],
  ["throttled", "reading ELB", "api error ThrottlingException: Rate exceeded"],
  ["quota", "creating EC2 VPC", "api error VpcLimitExceeded: The maximum number of VPCs"],
  ["quota", "waiting for ASG", "api error VcpuLimitExceeded: You have requested more vCPU"],
  ["quota", "creating NLB", "api error TooManyLoadBalancers: The maximum number"],
  [
    "capacity",
    "waiting for Auto Scaling Group",
    "InsufficientInstanceCapacity - We currently do not have sufficient m7g.xlarge capacity",
  ],
  ["auth", "Cannot assume IAM Role", "IAM Role (arn:aws:iam::1:role/x) cannot be assumed."],
  [
    "auth",
    "creating S3 Bucket",
    "api error AccessDenied: User: arn:aws:sts::1:assumed-role/x is not authorized to perform: s3:CreateBucket",
  ],
  ["config", "Instance cannot be destroyed", "Resource x has lifecycle.prevent_destroy set"],
  ["config", "modifying EBS Volume", "api error InvalidParameterValue: Throughput of 2000"],
  [
    "too_soon",
    "modifying EBS Volume",
    "api error VolumeModificationRateExceeded: You've reached the maximum modification rate per volume limit. Wait at least 6 hours between modifications per EBS volume.",
  ],
  [
    "busy",
    "deleting EC2 VPC Endpoint Service",
    "ExistingVpcEndpointConnections: Service has existing active VPC Endpoint connections!",
  ],
  ["config", "reading subnet", "api error InvalidSubnetID.NotFound: The subnet ID"],
])("%s: %s", (code, summary, detail) => {
  expect(classOf([error(summary, detail)])).toBe(code);
});

test("unknown errors have no class, and warnings are ignored", () => {
  expect(classOf([error("Plugin did not respond", "The plugin encountered an error")])).toBe(
    undefined,
  );
  expect(classOf([{ ...error("x", "AccessDenied"), severity: "warning" }])).toBe(undefined);
});

test("a failure names the resource, says how, and is bounded", () => {
  const many = Array.from({ length: 40 }, (_, n) => error(`s${n}`, "d".repeat(1_000), `a.b${n}`));
  const failure = runFailure("terraform apply", many, "apply_failed");
  expect(failure).toMatchObject({ code: "apply_failed", retryable: true });
  expect(failure.message).toBe("terraform apply failed: a.b0: s0");
  expect(failure.detail?.length).toBe(8_000);
  const few = runFailure(
    "terraform plan",
    many.slice(0, 12).map((e) => ({ ...e, detail: "" })),
    "plan_failed",
  );
  expect(few.detail).toContain("… 2 more errors");
});

test("a change that AWS accepts once in several hours is not retried, and says when it may be", () => {
  const refused = error(
    "modifying EBS Volume",
    "api error VolumeModificationRateExceeded: …",
    "v.w",
  );
  const failure = runFailure("terraform apply", [refused], "apply_failed");
  expect(failure).toMatchObject({ code: "too_soon", retryable: false });
  expect(failure.message).toContain("six hours after the last one");
});

test("diagnostics of any form are read, others are not", () => {
  expect(diagnosticOf({ severity: "error", summary: "s", detail: "d", address: "" })).toEqual(
    error("s", "d"),
  );
  expect(diagnosticOf({ detail: "d" })).toBeUndefined();
  expect(diagnosticOf("text")).toBeUndefined();
});
