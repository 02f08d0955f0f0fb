/** Tuning and catch-up through the use cases, the program as it is shipped, and the real broker. */
import { BrokerError } from "@millrace/broker-admin";
import {
  brokerHttpBy,
  type Core,
  coreOf,
  createCore,
  getCatchUp,
  getTuning,
  listTuningChanges,
  pauseCluster,
  resumeCluster,
  type TuningView,
  updateTuning,
} from "@millrace/core";
import {
  bootstrapServers,
  type Cluster,
  type Principal,
  TUNING_PROPERTIES,
  type TuningOverrides,
} from "@millrace/domain";
import { localAccess } from "@millrace/provisioner";
import { describe, expect, test } from "vitest";
import { BUSY_MS_MAX, installation } from "./fixture.ts";
import { adminHttp, brokerBin, consume, produce } from "./real-broker.ts";

const MIB = 1024 ** 2;
const TIMEOUT_MS = 240_000;
const BLOCK_CACHE = TUNING_PROPERTIES.block_cache_bytes;

const it = installation();

describe.skipIf(brokerBin === undefined)("with the real broker", () => {
  test("a cluster keeps its tuning while it runs, after kill -9, and after a change at the broker", {
    timeout: TIMEOUT_MS,
  }, async () => {
    const product = await runningProduct("tuned");
    const { cluster, tune, look } = product;
    const untouched = await look();
    expect(untouched).toMatchObject({ applied: true, cluster: { tuning: { version: 0 } } });

    // Every setting at once, each to a new value.
    const overrides = {
      block_cache_bytes: 64 * MIB,
      prefetch_max_bytes: 8 * MIB,
      ingress_baseline_bytes_per_second: 200 * MIB,
      egress_baseline_bytes_per_second: 100 * MIB,
      wal_cache_bytes: 128 * MIB,
      upload_threshold_bytes: 32 * MIB,
    };
    const tuned = await tune(overrides);
    expect(tuned.applied).toBe(true);
    expect(valuesOf(tuned)).toEqual(overrides);
    expect(await atBroker(product, BLOCK_CACHE)).toBe(String(64 * MIB));

    const [before] = it.brokersOf(cluster.id);
    process.kill(before ?? 0, "SIGKILL");
    const missed = await tune({ block_cache_bytes: 96 * MIB });
    expect(missed.applied).toBe(false);
    await it.waitForPhase(cluster, "DEGRADED");
    await it.waitForPhase(cluster, "RUNNING");
    const all = { ...overrides, block_cache_bytes: 96 * MIB };
    await expect
      .poll(async () => [(await look()).applied, await appliedVersion(cluster)], {
        timeout: BUSY_MS_MAX,
        interval: 250,
      })
      .toEqual([true, 2]);
    expect(valuesOf(await look())).toEqual(all);

    const broker = await adminHttp(it.home, cluster);
    await broker.changeSettings({ set: { [BLOCK_CACHE]: String(32 * MIB) } });
    await expect
      .poll(() => atBroker(product, BLOCK_CACHE), { timeout: BUSY_MS_MAX, interval: 250 })
      .toBe(String(96 * MIB));

    const nulls = Object.fromEntries(Object.keys(overrides).map((knob) => [knob, null]));
    const reset = await tune(nulls);
    expect(reset.applied).toBe(true);
    expect(valuesOf(reset)).toEqual(valuesOf(untouched));
    const { items } = await listTuningChanges(product.core, product.principal, {
      clusterId: cluster.id,
    });
    expect(items.map(({ change, result }) => [change.version, result])).toEqual([
      [3, "applied"],
      [2, "applied"],
      [1, "applied"],
    ]);
  });

  test("a change made while the cluster is paused is in force when it has resumed", {
    timeout: TIMEOUT_MS,
  }, async () => {
    const product = await runningProduct("resumed");
    const { core, principal, cluster, tune, look } = product;
    // The broker stores this, and prefers it to its configuration file.
    await tune({ block_cache_bytes: 64 * MIB });
    const target = { clusterId: cluster.id };
    await it.waitForOperation(cluster, (await pauseCluster(core, principal, target)).id);
    await tune({ block_cache_bytes: 32 * MIB });
    await it.waitForOperation(cluster, (await resumeCluster(core, principal, target)).id);
    expect((await look()).applied).toBe(true);
    expect(await atBroker(product, BLOCK_CACHE)).toBe(String(32 * MIB));
  });

  test("the bounds shown are the broker's", { timeout: TIMEOUT_MS }, async () => {
    const product = await runningProduct("bounded");
    for (const knob of Object.keys(TUNING_PROPERTIES) as (keyof typeof TUNING_PROPERTIES)[]) {
      for (const bound of ["min", "max"] as const) {
        const value = (await product.look()).knobs[knob][bound];
        const changed = await product.tune({ [knob]: value });
        expect([knob, changed.knobs[knob].value, changed.applied]).toEqual([knob, value, true]);
        await product.tune({ [knob]: null });
      }
    }
    const broker = await adminHttp(it.home, product.cluster);
    const refused = broker.changeSettings({ set: { [BLOCK_CACHE]: "4096" } });
    const error = await refused.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(BrokerError);
    expect(error).toMatchObject({
      code: "invalid_config",
      said: expect.stringMatching(/s3\.block\.cache\.size.*4096.*\d/s),
    });
  });

  test("catch-up reads are reported as the broker reports them", {
    timeout: TIMEOUT_MS,
  }, async () => {
    const { core, principal, cluster, address } = await runningProduct("behind");
    const { topics } = await adminHttp(it.home, cluster);
    await topics.create({ name: "orders", partitions: 2, configs: {} });
    await produce(address, "orders", 500);
    await consume(address, "orders", 300);
    const groups = async () => (await getCatchUp(core, principal, cluster.id)).groups;
    await expect
      .poll(groups, { timeout: BUSY_MS_MAX, interval: 250 })
      .toMatchObject([{ group: "readers", backlog_records: "200", partitions: [{}, {}] }]);
    const { cache, network, time } = await getCatchUp(core, principal, cluster.id);
    expect(cache.size_bytes).toBe(String(128 * MIB));
    expect(network.ingress.baseline_bytes_per_second).toBeNull();
    expect(network.ingress.tiers).toHaveLength(5);
    expect(Math.abs(Date.parse(time) - Date.now())).toBeLessThan(60_000);
  });
});

interface Product {
  readonly core: Core;
  readonly principal: Principal;
  readonly cluster: Cluster;
  readonly address: string;
  tune(patch: TuningOverrides): Promise<TuningView>;
  look(): Promise<TuningView>;
}

/** The product's worker with one cluster that serves, and the use cases as the API has them. */
async function runningProduct(name: string): Promise<Product> {
  await it.startProduct({ stopBrokers: true, brokerBin: brokerBin ?? "" });
  const { cluster, operation } = await it.requestCluster(name);
  await it.waitForOperation(cluster, operation.id);
  const running = await it.waitForPhase(cluster, "RUNNING");
  const parts = createCore({
    db: it.db,
    secret: "a secret of the tests, long enough",
    brokerHttp: brokerHttpBy(localAccess(it.home)),
    // Tuning needs none.
    drivers: {
      local: { plan: unneeded, allocate: unneeded, rootCertificate: unneeded },
      awsPlanner: undefined,
      localAvailable: true,
      awsRegion: undefined,
    },
  });
  const core = coreOf(parts, it.organizationId);
  const principal: Principal = {
    organizationId: running.organizationId,
    role: "owner",
    userId: "usr_01JD0000000000000000000000",
    apiKeyId: undefined,
  };
  return {
    core,
    principal,
    cluster: running,
    address: bootstrapServers(running) ?? "",
    tune: (patch) => updateTuning(core, principal, { clusterId: running.id, patch }),
    look: () => getTuning(core, principal, running.id),
  };
}

function unneeded(): never {
  throw new Error("tuning plans nothing");
}

function valuesOf({ knobs }: TuningView): Record<string, number> {
  return Object.fromEntries(Object.entries(knobs).map(([knob, { value }]) => [knob, value]));
}

async function atBroker({ cluster }: Product, name: string): Promise<string | undefined> {
  return (await (await adminHttp(it.home, cluster)).settings()).get(name)?.value;
}

async function appliedVersion({ id }: Cluster): Promise<number | undefined> {
  return (await it.db.clusters.load(id))?.tuning.appliedVersion;
}
