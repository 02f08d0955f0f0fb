import { BrokerError, type BrokerHttp, type BrokerSettings } from "@millrace/broker-admin";
import { openDatabase } from "@millrace/db";
import {
  type Cluster,
  type ClusterSize,
  type Principal,
  TUNING_KNOBS,
  TUNING_PROPERTIES,
  type TuningOverrides,
  tuningDefaults,
} from "@millrace/domain";
import { beforeEach, expect, test } from "vitest";
import {
  applyTuning,
  type Core,
  deploymentOf,
  getTuning,
  listTuningChanges,
  pauseCluster,
  resumeCluster,
  updateTuning,
} from "../src/index.ts";
import {
  askForCluster,
  brokerWith,
  coreFixture,
  coreFor,
  drivers,
  newTools,
  unreachable,
} from "./fixture.ts";
import { lives } from "./lives.ts";

const MIB = 1024 ** 2;
const BLOCK_CACHE = TUNING_PROPERTIES.block_cache_bytes;
const fixture = coreFixture();

/** The one broker of these tests. */
let settings: Map<string, string>;
let mood: "up" | "down" | "refuses" | "fenced";
/** Its words where it refuses. */
let said: string;
let writes: number;
/** Settings that the broker refuses together. */
let tooMuch: readonly string[] | undefined;
/** Awaited by the broker before it says that it would take a change. */
let atCheck: (() => Promise<void>) | undefined;
/** Awaited by the broker before it makes a change. */
let atWrite: (() => Promise<void>) | undefined;
let core: Core;
let cluster: Cluster;
let principal: Principal;
let ports = 31_000;

beforeEach(async () => {
  principal = { ...fixture.principal, userId: "usr_01JD0000000000000000000000" };
  mood = "up";
  said = "too large";
  writes = 0;
  tooMuch = undefined;
  atCheck = undefined;
  atWrite = undefined;
  const defaults = tuningDefaults({ size: "dev" });
  settings = new Map(TUNING_KNOBS.map((knob) => [TUNING_PROPERTIES[knob], String(defaults[knob])]));
  core = coreFor(fixture, {
    drivers,
    brokerHttp: async () => brokerWith({ settings: readSettings, changeSettings: write }),
  });
  cluster = await runningCluster("dev");
});

async function runningCluster(size: ClusterSize): Promise<Cluster> {
  const { clusters } = fixture.db;
  const made = await askForCluster(fixture, size);
  ports += 2;
  const placement = { host: "127.0.0.1", kafkaPort: ports, adminPort: ports + 1 };
  await clusters.recordPlacement(made.cluster.id, placement);
  await clusters.changePhase(made.cluster.id, { to: "RUNNING", observed: true });
  return now(made.cluster.id);
}

async function readSettings(): Promise<BrokerSettings> {
  if (mood === "down") throw new BrokerError("unreachable", "nothing listens");
  return new Map(
    [...settings].map(([name, value]) => [
      name,
      { value, dynamic: true, min: undefined, max: undefined, reason: undefined },
    ]),
  );
}

async function write({ set, validateOnly }: Parameters<BrokerHttp["changeSettings"]>[0]) {
  if (mood === "down") throw new BrokerError("unreachable", "nothing listens");
  if (mood === "refuses") throw new BrokerError("invalid_config", "no", { said });
  if (mood === "fenced") throw new BrokerError("refused", "replaced by a newer start");
  if (tooMuch?.every((name) => name in set)) {
    throw new BrokerError("invalid_config", "no", { said });
  }
  if (validateOnly) return atCheck?.();
  await atWrite?.();
  writes += 1;
  for (const [name, value] of Object.entries(set)) settings.set(name, value);
}

/** The cluster as its row has it now. */
async function now(id = cluster.id): Promise<Cluster> {
  return (await fixture.db.clusters.load(id))!;
}

function ask(patch: TuningOverrides) {
  return updateTuning(core, principal, { clusterId: cluster.id, patch });
}

/** Newest first. */
async function results(): Promise<string[]> {
  const page = await listTuningChanges(core, principal, { clusterId: cluster.id });
  return page.items.map(({ result }) => result);
}

async function lastResult(): Promise<string | undefined> {
  return (await results())[0];
}

test("a change that the broker missed is applied when it is back, and only once", async () => {
  mood = "down";
  await ask({ block_cache_bytes: 64 * MIB });
  expect(await applyTuning(core, await now())).toBe("silent");
  expect([await lastResult(), (await now()).tuning.appliedVersion]).toEqual(["pending", 0]);
  mood = "up";
  expect(await applyTuning(core, await now())).toBe("applied");
  expect(settings.get(BLOCK_CACHE)).toBe(String(64 * MIB));
  expect([await lastResult(), (await now()).tuning.appliedVersion]).toEqual(["applied", 1]);
  expect(await applyTuning(core, await now())).toBe("same");
  expect(writes).toBe(1);
});

test("what a restart or somebody at the broker undid is put right", async () => {
  await ask({ block_cache_bytes: 64 * MIB });
  settings.set(BLOCK_CACHE, String(tuningDefaults({ size: "dev" }).block_cache_bytes));
  expect(await applyTuning(core, await now())).toBe("applied");
  expect(settings.get(BLOCK_CACHE)).toBe(String(64 * MIB));
});

test("what was never asked for is left as the broker has it", async () => {
  settings.set(BLOCK_CACHE, "33554432");
  expect(await applyTuning(core, await now())).toBe("same");
  await ask({ prefetch_max_bytes: MIB });
  expect(await applyTuning(core, await now())).toBe("same");
  expect(settings.get(BLOCK_CACHE)).toBe("33554432");
});

test("a default that was asked for while the broker was down gets there too", async () => {
  await ask({ block_cache_bytes: 64 * MIB });
  mood = "down";
  await ask({ block_cache_bytes: null });
  mood = "up";
  expect(await applyTuning(core, await now())).toBe("applied");
  expect(settings.get(BLOCK_CACHE)).toBe(String(128 * MIB));
});

test("an applier with an old idea of the overrides applies those of now", async () => {
  await ask({ block_cache_bytes: 64 * MIB });
  const old = await now();
  await ask({ block_cache_bytes: 32 * MIB });
  await applyTuning(core, old);
  expect(settings.get(BLOCK_CACHE)).toBe(String(32 * MIB));
  expect((await now()).tuning).toMatchObject({ version: 2, appliedVersion: 2 });
});

test("a broker that had it already when it came back is noted as having it", async () => {
  mood = "down";
  await ask({ block_cache_bytes: 64 * MIB });
  mood = "up";
  settings.set(BLOCK_CACHE, String(64 * MIB));
  expect(await applyTuning(core, await now())).toBe("same");
  expect(await lastResult()).toBe("applied");
  expect(writes).toBe(0);
});

test("a refusal of what came late is shown with the broker's words, until it takes it", async () => {
  mood = "down";
  await ask({ block_cache_bytes: 64 * MIB });
  mood = "refuses";
  expect(await applyTuning(core, await now())).toBe("refused");
  expect((await now()).tuning.problem).toBe("too large");
  expect(await lastResult()).toBe("refused");
  mood = "up";
  expect(await applyTuning(core, await now())).toBe("applied");
  expect((await now()).tuning.problem).toBeUndefined();
  expect(await lastResult()).toBe("applied");
});

test("of changes that wait, those whose every part was asked for again are superseded", async () => {
  mood = "down";
  await ask({ block_cache_bytes: 64 * MIB });
  await ask({ block_cache_bytes: 32 * MIB, prefetch_max_bytes: MIB });
  await ask({ block_cache_bytes: null });
  expect(await results()).toEqual(["pending", "pending", "superseded"]);
  mood = "refuses";
  await applyTuning(core, await now());
  expect(await results()).toEqual(["refused", "refused", "superseded"]);
  mood = "up";
  await applyTuning(core, await now());
  expect(await results()).toEqual(["applied", "applied", "applied"]);
});

test("what is asked for while the broker is silent is kept, be it the default", async () => {
  settings.set(BLOCK_CACHE, "33554432");
  mood = "down";
  await ask({ block_cache_bytes: 128 * MIB });
  await ask({ block_cache_bytes: 128 * MIB });
  expect(await results()).toEqual(["pending"]);
  mood = "up";
  expect(await applyTuning(core, await now())).toBe("applied");
  expect(settings.get(BLOCK_CACHE)).toBe(String(128 * MIB));
});

test("a refusal stands at the field that it is about, not at one that its reason names", async () => {
  said =
    "s3.wal.cache.size: 300 is above the most of 200: of which s3.block.cache.size has 90\n" +
    "s3.prefetch.max.bytes: 5 is above the most of 4: because";
  mood = "refuses";
  const patch = {
    block_cache_bytes: 64 * MIB,
    prefetch_max_bytes: MIB,
    wal_cache_bytes: 300 * MIB,
  };
  await expect(ask(patch)).rejects.toMatchObject({
    fields: [{ pointer: "/wal_cache_bytes" }, { pointer: "/prefetch_max_bytes" }],
  });
});

test("a refusal of a change leaves no trace of it", async () => {
  mood = "refuses";
  await expect(ask({ block_cache_bytes: 64 * MIB })).rejects.toMatchObject({
    code: "tuning_refused",
    fields: [{ pointer: "/block_cache_bytes", message: expect.stringContaining("too large") }],
  });
  expect((await now()).tuning).toEqual(cluster.tuning);
  expect(await lastResult()).toBeUndefined();
});

test("a broker that has been replaced has not refused: it is asked again", async () => {
  mood = "fenced";
  const view = await ask({ block_cache_bytes: 64 * MIB });
  expect(view.applied).toBe(false);
  expect(view.cluster.tuning.problem).toContain("newer start");
  mood = "up";
  expect(await applyTuning(core, await now())).toBe("applied");
});

/** From now on the broker makes no change until it is released. */
function hang() {
  const gate = Promise.withResolvers<void>();
  const hung = { changes: 0, release: gate.resolve };
  atWrite = async () => {
    hung.changes += 1;
    await gate.promise;
  };
  return hung;
}

test("a broker that hangs keeps no connection to the database, and holds up no other change", async () => {
  // Fewer than the changes that hang.
  const database = openDatabase({ url: fixture.apiUrl, connectionsMax: 2 });
  const hung = hang();
  try {
    const db = { ...fixture.db, api: database };
    const { brokerHttp } = core;
    core = coreFor({ ...fixture, db }, { ...unreachable, brokerHttp, drivers });
    const sizes = [1, 2, 3, 4].map((mib) => mib * MIB);
    const changes = sizes.map((size) => ask({ prefetch_max_bytes: size }));
    await expect.poll(() => hung.changes).toBe(sizes.length);
    const view = await getTuning(core, principal, cluster.id);
    expect(view).toMatchObject({ applied: false, cluster: { tuning: { version: sizes.length } } });
    hung.release();
    await Promise.all(changes);
    const { overrides, version, appliedVersion } = (await now()).tuning;
    expect([version, appliedVersion]).toEqual([sizes.length, sizes.length]);
    const atBroker = settings.get(TUNING_PROPERTIES.prefetch_max_bytes);
    expect(atBroker).toBe(String(overrides.prefetch_max_bytes));
  } finally {
    hung.release();
    await database.close();
  }
});

test("of two changes at once that the broker takes alone but not together, one is refused", async () => {
  tooMuch = [BLOCK_CACHE, TUNING_PROPERTIES.prefetch_max_bytes];
  const bothChecked = Promise.withResolvers<void>();
  let checks = 0;
  atCheck = async () => {
    checks += 1;
    if (checks === 2) bothChecked.resolve();
    await bothChecked.promise;
  };
  const patches = [{ block_cache_bytes: 64 * MIB }, { prefetch_max_bytes: 4 * MIB }];
  const outcomes = await Promise.allSettled(patches.map(ask));
  const refused = outcomes.filter((outcome) => outcome.status === "rejected");
  expect(refused).toMatchObject([{ reason: { code: "tuning_refused" } }]);
  expect((await now()).tuning.version).toBe(1);
  expect(await results()).toEqual(["applied"]);
});

test("a process that ends while the broker is told leaves the rest to the worker", async () => {
  const hung = hang();
  // Until it is released, this is as good as a process that has ended.
  const lost = ask({ block_cache_bytes: 64 * MIB });
  await expect.poll(() => hung.changes).toBe(1);
  expect(await lastResult()).toBe("pending");
  atWrite = undefined;
  expect(await applyTuning(core, await now())).toBe("applied");
  expect([settings.get(BLOCK_CACHE), await lastResult()]).toEqual([String(64 * MIB), "applied"]);
  hung.release();
  await lost;
});

test("an older change that reaches the broker late is followed by the newer one", async () => {
  const hung = hang();
  const late = ask({ block_cache_bytes: 64 * MIB });
  await expect.poll(() => hung.changes).toBe(1);
  atWrite = undefined;
  await ask({ block_cache_bytes: 32 * MIB });
  expect(await results()).toEqual(["applied", "applied"]);
  hung.release();
  const view = await late;
  expect(settings.get(BLOCK_CACHE)).toBe(String(32 * MIB));
  expect([view.applied, view.cluster.tuning.version]).toEqual([true, 2]);
});

test("the broker starts with what was asked for, and with its own default of the rest", async () => {
  mood = "down";
  await ask({ block_cache_bytes: 64 * MIB, egress_baseline_bytes_per_second: 10 * MIB });
  await ask({ block_cache_bytes: null });
  const properties = deploymentOf(await now())?.properties ?? {};
  expect(properties).toMatchObject({
    [BLOCK_CACHE]: String(128 * MIB),
    "s3.wal.cache.size": String(256 * MIB),
    "s3.network.egress.baseline.bandwidth": String(10 * MIB),
  });
  expect(Object.keys(properties)).not.toContain("s3.prefetch.max.bytes");
});

test("a change made while the cluster is paused is in force when it has resumed", async () => {
  const of = lives(fixture);
  const tools = newTools(fixture.db, {
    applyTuning: (db, resumed) => applyTuning({ ...core, db }, resumed),
  });
  cluster = await of.running(tools);
  // A broker keeps what it was given while it ran, and prefers it to what it starts with.
  await ask({ block_cache_bytes: 64 * MIB });
  const target = { clusterId: cluster.id };
  await of.run(tools, await pauseCluster(core, principal, target));
  mood = "down";
  await ask({ block_cache_bytes: 32 * MIB });
  mood = "up";
  expect(await of.run(tools, await resumeCluster(core, principal, target))).toBe("succeeded");
  expect(await getTuning(core, principal, cluster.id)).toMatchObject({
    applied: true,
    knobs: { block_cache_bytes: { value: 32 * MIB, applied: true } },
  });
  expect(await results()).toEqual(["applied", "applied"]);
});

test("a broker that refuses its tuning resumes nevertheless", async () => {
  const of = lives(fixture);
  const tools = newTools(fixture.db, {
    applyTuning: (db, resumed) => applyTuning({ ...core, db }, resumed),
  });
  cluster = await of.running(tools);
  const target = { clusterId: cluster.id };
  await of.run(tools, await pauseCluster(core, principal, target));
  mood = "down";
  await ask({ block_cache_bytes: 64 * MIB });
  mood = "refuses";
  expect(await of.run(tools, await resumeCluster(core, principal, target))).toBe("succeeded");
  expect(await results()).toEqual(["refused"]);
});

const WAL_CACHE = TUNING_PROPERTIES.wal_cache_bytes;
const THRESHOLD = TUNING_PROPERTIES.upload_threshold_bytes;

test.each([
  ["a log cache below the size's threshold", THRESHOLD, 8, { wal_cache_bytes: 16 * MIB }],
  ["a threshold beyond the size's log cache", WAL_CACHE, 1_000, { upload_threshold_bytes: 9e8 }],
])("%s fits to what the broker has, and lets it start", async (_, property, mib, patch) => {
  cluster = await runningCluster("small");
  settings.set(property, String(mib * MIB));
  await ask(patch);
  const properties = deploymentOf(await now())?.properties ?? {};
  expect(Number(properties[THRESHOLD])).toBe(Number(properties[WAL_CACHE]));
});

test("a cluster that grew keeps its write-ahead log, and the threshold fits to it", async () => {
  const grown = { size: "small", needsOperation: false } as const;
  const found = await fixture.db.clusters.changeSpec(cluster.id, grown);
  const deployment = deploymentOf(found);
  expect(deployment?.walCapacityBytes).toBe(256 * MIB);
  expect(deployment?.properties[THRESHOLD]).toBe(String(128 * MIB));
});

test("a cluster that was never tuned starts as it did before", async () => {
  expect(deploymentOf(cluster)?.properties).toEqual({
    "s3.wal.cache.size": "268435456",
    "s3.wal.upload.threshold": "67108864",
    "s3.block.cache.size": "134217728",
    "offsets.topic.num.partitions": "8",
  });
  expect((await getTuning(core, principal, cluster.id)).applied).toBe(true);
});
