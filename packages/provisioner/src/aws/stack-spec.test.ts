import { defaultAwsSpec } from "@millrace/domain";
import { expect, test } from "vitest";
import type { ClusterDeployment } from "../cluster-driver.ts";
import { modeFor, type StackAccount, stackSpec } from "./stack-spec.ts";

const ACCOUNT: StackAccount = {
  accountId: "111122223333",
  roleArn: "arn:aws:iam::111122223333:role/millrace/provisioner",
  artefact: { bucket: "artefacts", key: "broker", sha256: "0".repeat(64) },
  amiId: "ami-0123456789abcdef0",
  permissionsBoundaryArn: "arn:aws:iam::111122223333:policy/boundary",
  controlLink: {
    name: "com.amazonaws.vpce.eu-central-1.vpce-svc-0123456789abcdef0",
    domain: "link.millrace.example.com",
    zones: ["eu-central-1a"],
  },
};
const DEPLOYMENT: ClusterDeployment = {
  ...{ clusterId: "clu_a", organizationId: "org_a", environmentId: "env_a", name: "orders" },
  ...{
    region: "eu-central-1",
    size: "small",
    brokers: 1,
    paused: false,
    plaintextListener: true,
    labels: {},
  },
  aws: { ...defaultAwsSpec("small"), zones: ["eu-central-1a"] },
  placement: { host: "none", kafkaPort: 9092 },
  walCapacityBytes: 1,
  properties: {},
};

test("an invalid spec is refused with the fields to fix", () => {
  const refused = () => stackSpec({ ...DEPLOYMENT, brokers: 12 }, "running", ACCOUNT);
  expect(refused).toThrow(expect.objectContaining({ code: "config", retryable: false }));
  expect(refused).toThrow("/brokers is 12");
  expect(stackSpec(DEPLOYMENT, "running", ACCOUNT).slots).toBe(1);
});

test("a cluster on this machine has no stack", () => {
  const { aws: _, ...local } = DEPLOYMENT;
  expect(() => stackSpec(local, "running", ACCOUNT)).toThrow("has no spec for AWS");
});

test("the mode of the stack follows from the purpose of the plan", () => {
  const paused = { ...DEPLOYMENT, paused: true };
  expect(modeFor("apply", DEPLOYMENT)).toBe("running");
  expect(modeFor("apply", paused)).toBe("paused");
  expect(modeFor("drift", paused)).toBe("paused");
  expect(modeFor("pause", DEPLOYMENT)).toBe("paused");
  expect(modeFor("destroy", DEPLOYMENT)).toBe("retained");
  expect(modeFor("purge", DEPLOYMENT)).toBe("purge");
});
