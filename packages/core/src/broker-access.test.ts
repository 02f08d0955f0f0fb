import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Cluster, DomainError } from "@millrace/domain";
import { localKafka } from "@millrace/provisioner";
import { afterEach, beforeEach, expect, test } from "vitest";
import { kafkaBy } from "./broker-access.ts";
import { atBroker } from "./broker-failure.ts";

const cluster = {
  ...{ id: "clu_a", region: "local", size: "dev", tuning: { overrides: {} }, labels: {} },
  placement: { host: "127.0.0.1", kafkaPort: 19_092, tlsPort: 19_093, adminPort: 19_592 },
} as unknown as Cluster;

let home: string;

/** As a broker's start leaves it, but for the CA. */
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "millrace-broker-access-"));
  const folder = join(home, "clusters", cluster.id);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "admin.token"), "a".repeat(64));
  await writeFile(join(folder, "server.properties"), "admin.sasl.enabled=true\n");
});

afterEach(() => rm(home, { recursive: true, force: true }));

const topics = () =>
  atBroker(undefined, () => kafkaBy(localKafka(home))(cluster, (admin) => admin.listTopics()));

test("a damaged CA fails with a remedy for the operator, and without the installation's paths", async () => {
  await mkdir(join(home, "keys"));
  await writeFile(join(home, "keys", "ca.pem"), "damaged");
  const failure = await topics().catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(DomainError);
  expect(failure).toMatchObject({
    ...{ code: "broker_failed", status: 502, message: "The installation's CA cannot be read." },
    remedy: "Ask the installation's operator to restore keys/ca.pem from a backup.",
  });
});

test("a missing CA is one of a broker that has not started yet", async () => {
  await expect(topics()).rejects.toMatchObject({ code: "broker_unavailable", status: 503 });
});
