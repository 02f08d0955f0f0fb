import type { Cluster } from "@millrace/domain";
import { ProvisionError } from "@millrace/provisioner";
import { expect, test } from "vitest";
import { brokerHttpBy } from "./broker-access.ts";
import { atBroker } from "./broker-failure.ts";

const cluster = {
  ...{
    id: "clu_a",
    region: "local",
    size: "dev",
    brokers: 1,
    tuning: { overrides: {} },
    labels: {},
  },
  placement: { host: "127.0.0.1", kafkaPort: 19_092, tlsPort: 19_093, adminPort: 19_592 },
} as unknown as Cluster;

function reach(to: Cluster, error: Error): Promise<unknown> {
  return atBroker(undefined, () => brokerHttpBy(() => Promise.reject(error))(to));
}

test("a broker that was never prepared, or has no place yet, is one that does not answer", async () => {
  const unavailable = { code: "broker_unavailable", status: 503 };
  const notPrepared = new ProvisionError("not_prepared", "nothing there");
  await expect(reach(cluster, notPrepared)).rejects.toMatchObject(unavailable);
  const unplaced = { ...cluster, placement: undefined } as unknown as Cluster;
  await expect(reach(unplaced, new Error("not asked"))).rejects.toMatchObject(unavailable);
});

test("any other failure on the way passes unchanged", async () => {
  const failure = new ProvisionError("config", "damaged");
  await expect(reach(cluster, failure)).rejects.toBe(failure);
});
