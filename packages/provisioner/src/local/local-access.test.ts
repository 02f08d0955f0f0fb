import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ClusterDeployment } from "../cluster-driver.ts";
import { BrokerFiles } from "./broker-files.ts";
import { localAccess } from "./local-access.ts";

const LOOPBACK = "127.0.0.1";

let home: string;

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "millrace-access-"));
});

afterEach(async () => {
  await rm(home, { recursive: true, force: true });
});

describe("the way to a broker that knows the control plane's user", () => {
  const deployment = {
    ...{ clusterId: "clu_a", organizationId: "org_a", environmentId: "env_a", name: "orders" },
    ...{ region: "local", size: "dev", brokers: 1, paused: false, labels: {}, properties: {} },
    placement: { host: LOOPBACK, kafkaPort: 19_092, tlsPort: 19_093, adminPort: 19_592 },
    ...{ plaintextListener: false, walCapacityBytes: 1 },
  } as const satisfies ClusterDeployment;

  beforeEach(() => new BrokerFiles(home, "clu_a").write(deployment));

  test("its admin HTTP does not depend on the CA, which only Kafka's protocol needs", async () => {
    await mkdir(join(home, "keys"));
    await writeFile(join(home, "keys", "ca.pem"), "damaged");
    const { adminToken, kafka } = await localAccess(home)(deployment);
    expect(adminToken).toMatch(/^[0-9a-f]{64}$/);
    await expect(kafka()).rejects.toMatchObject({ code: "config" });
  });

  test("it is called at the gateway, unless its configuration is that of an earlier version", async () => {
    const link = { address: "127.0.0.1:4100", url: "http://127.0.0.1:4101", token: "t" };
    const before = await localAccess(home, link)(deployment);
    expect(before).toMatchObject({ adminUrl: "http://127.0.0.1:19592" });
    expect(before.slot).toBeUndefined();
    await new BrokerFiles(home, "clu_a", { linkAddress: link.address }).write(deployment);
    expect(await localAccess(home, link)(deployment)).toMatchObject({
      adminUrl: "http://127.0.0.1:4101/v1/clusters/clu_a/brokers/0",
      adminToken: "t",
      slot: { clusterId: "clu_a", brokerId: 0 },
    });
    expect(await localAccess(home)(deployment)).toMatchObject({
      adminUrl: "http://127.0.0.1:19592",
    });
  });

  test("a broker without an admin port cannot be called without a gateway", async () => {
    const { adminPort: _, ...placement } = deployment.placement;
    await expect(localAccess(home)({ ...deployment, placement })).rejects.toMatchObject({
      code: "unconfigured",
      message: "the broker has no admin port, and this program no gateway to reach it by",
    });
  });

  test("without a CA, the control plane trusts no public root instead", async () => {
    const { kafka } = await localAccess(home)(deployment);
    await expect(kafka()).rejects.toMatchObject({ code: "not_prepared" });
  });
});
