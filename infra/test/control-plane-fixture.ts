import type { ControlPlaneSpec } from "../src/stacks/control-plane/spec.ts";

const DIGEST = "ab".repeat(32);
const REGISTRY = "111122223333.dkr.ecr.eu-central-1.amazonaws.com";

/** A whole control plane over three zones, with a console that a company's network reaches. */
export const CONTROL_PLANE: ControlPlaneSpec = {
  stage: "complete",
  installation: "main",
  accountId: "111122223333",
  region: "eu-central-1",
  zones: ["eu-central-1a", "eu-central-1b", "eu-central-1c"],
  cidr: "10.90.0.0/20",
  domainName: "millrace.example.com",
  certificateArn: "arn:aws:acm:eu-central-1:111122223333:certificate/1",
  allowedCidrs: ["203.0.113.0/24"],
  images: {
    api: `${REGISTRY}/mr-main/api@sha256:${DIGEST}`,
    console: `${REGISTRY}/mr-main/console@sha256:${DIGEST}`,
    worker: `${REGISTRY}/mr-main/worker@sha256:${DIGEST}`,
  },
  brokerBuild: { path: "millrace", sha256: DIGEST },
  amiId: "ami-0123456789abcdef0",
  databaseClass: "db.t4g.medium",
  secretsVersion: 1,
  alarmTopicArns: ["arn:aws:sns:eu-central-1:111122223333:alarms"],
};
