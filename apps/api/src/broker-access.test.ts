import type { ClusterDeployment } from "@millrace/provisioner";
import { expect, test } from "vitest";
import { brokerAccess } from "./broker-access.ts";

const gateways = { url: "http://gateway:4101", token: "token" };
const deployment: ClusterDeployment = {
  ...{ clusterId: "clu_a", organizationId: "org_a", environmentId: "env_a", name: "orders" },
  ...{ size: "dev", brokers: 1, paused: false, labels: {}, properties: {}, region: "eu-central-1" },
  placement: { host: "bootstrap.a.millrace.internal", kafkaPort: 9092 },
  ...{ plaintextListener: true, walCapacityBytes: 1 },
};
const home = "/nonexistent";

test("a broker on AWS is called at the gateways", async () => {
  expect(await brokerAccess({ home, gateways })(deployment)).toMatchObject({
    adminUrl: "http://gateway:4101/v1/clusters/clu_a/brokers/0",
    adminToken: "token",
    slot: { clusterId: "clu_a", brokerId: 0 },
  });
  await expect(brokerAccess({ home })(deployment)).rejects.toMatchObject({ code: "unconfigured" });
});

test("a broker on this machine is not, as long as it has no link", async () => {
  const local = { ...deployment, region: "local" };
  await expect(brokerAccess({ home, gateways })(local)).rejects.toMatchObject({
    code: "not_prepared",
  });
});
