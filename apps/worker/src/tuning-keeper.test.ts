import { BrokerError } from "@millrace/broker-admin";
import {
  type Cluster,
  type ClusterPhase,
  TUNING_PROPERTIES,
  UNTOUCHED_TUNING,
} from "@millrace/domain";
import { pino } from "pino";
import { beforeEach, expect, test } from "vitest";
import { TuningKeeper } from "./tuning-keeper.ts";

const PROPERTY = TUNING_PROPERTIES.block_cache_bytes;
const PLACEMENT = { host: "127.0.0.1", kafkaPort: 19_092, adminPort: 19_592 };

/** Two clusters and their brokers, played by variables. */
let clusters: Cluster[];
let running: Map<string, string>;
let writes: string[];
let refusing: Set<string>;
let hanging: Set<string>;
let now: number;
let lines: string[];
let keeper: TuningKeeper;

function cluster(id: string, phase: ClusterPhase = "RUNNING"): Cluster {
  const tuning = { ...UNTOUCHED_TUNING, version: 1, overrides: { block_cache_bytes: 33_554_432 } };
  const row = { id, phase, tuning, size: "dev", observedRevision: 1, placement: PLACEMENT };
  return row as unknown as Cluster;
}

function retune(id: string, change: (tuning: Cluster["tuning"]) => Cluster["tuning"]): void {
  clusters = clusters.map((each) =>
    each.id === id ? { ...each, tuning: change(each.tuning) } : each,
  );
}

/** The broker that the work in hand speaks to: a fake that is told by its cluster's id. */
function wayTo(id: string) {
  const setting = { dynamic: true, min: undefined, max: undefined, reason: undefined };
  return {
    settings: async () => {
      if (hanging.has(id)) await new Promise(() => {});
      const value = running.get(id);
      if (value === undefined) throw new BrokerError("unreachable", "nothing listens");
      return new Map([[PROPERTY, { ...setting, value }]]);
    },
    changeSettings: async ({ set }: { set: Readonly<Record<string, string>> }) => {
      writes.push(id);
      if (refusing.has(id)) throw new BrokerError("invalid_config", "no", { said: "too large" });
      running.set(id, set[PROPERTY] ?? "");
    },
  };
}

beforeEach(() => {
  clusters = [cluster("clu_a")];
  running = new Map([["clu_a", "134217728"]]);
  writes = [];
  refusing = new Set();
  hanging = new Set();
  now = 0;
  lines = [];
  const tuning = {
    markApplied: async (id: string, version: number) => {
      retune(id, (before) => ({ ...before, appliedVersion: version, problem: undefined }));
      return true;
    },
    markProblem: async (id: string, _version: number, problem: string) => {
      retune(id, (before) => ({ ...before, problem }));
      return true;
    },
  };
  const db = {
    tuning,
    clusters: {
      inPhases: async (phases: readonly ClusterPhase[]) =>
        clusters.filter(({ phase }) => phases.includes(phase)),
      load: async (id: string) => clusters.find((each) => each.id === id),
    },
  };
  keeper = new TuningKeeper({
    db: { fleet: db, tenant: () => db } as never,
    brokerHttp: async ({ id }) => wayTo(id) as never,
    logger: pino({ level: "info" }, { write: (line: string) => void lines.push(line) }),
    now: () => now,
  });
});

async function round(): Promise<void> {
  await keeper.runOnce();
  await keeper.close();
}

test("a broker that is back gets the changes that it missed, and no more requests", async () => {
  running.delete("clu_a");
  await round();
  expect(writes).toEqual([]);
  running.set("clu_a", "134217728");
  for (let rounds = 0; rounds < 3; rounds += 1) await round();
  expect(writes).toEqual(["clu_a"]);
  expect(running.get("clu_a")).toBe("33554432");
  expect(clusters[0]?.tuning.appliedVersion).toBe(1);
});

test("a value that was changed at the broker is reset", async () => {
  await round();
  running.set("clu_a", "1");
  await round();
  expect(running.get("clu_a")).toBe("33554432");
});

test("a rejected tuning is retried at intervals, and at once after a change", async () => {
  refusing.add("clu_a");
  for (; now < 60_000; now += 2_000) await round();
  expect(writes).toHaveLength(2);
  expect(clusters[0]?.tuning.problem).toBe("too large");
  expect(lines.filter((line) => line.includes("rejects"))).toHaveLength(2);
  refusing.clear();
  await round();
  writes = [];
  refusing.add("clu_a");
  running.set("clu_a", "1");
  await round();
  await round();
  expect(writes).toHaveLength(1);
  retune("clu_a", (before) => ({ ...before, version: 2, overrides: { block_cache_bytes: null } }));
  await round();
  expect(writes).toHaveLength(2);
});

test("a broker that hangs does not delay another's tuning", async () => {
  clusters = [cluster("clu_a"), cluster("clu_b")];
  running.set("clu_b", "134217728");
  hanging.add("clu_a");
  await keeper.runOnce();
  await keeper.runOnce();
  await expect.poll(() => running.get("clu_b")).toBe("33554432");
  expect(writes).toEqual(["clu_b"]);
});

test.each(["PROVISIONING", "FAILED", "DELETING"] as const)(
  "a cluster that is %s is not touched",
  async (phase) => {
    clusters = [cluster("clu_a", phase)];
    await round();
    expect(writes).toEqual([]);
  },
);

test("a cluster without tuning gets no request", async () => {
  retune("clu_a", () => UNTOUCHED_TUNING);
  hanging.add("clu_a");
  await round();
  expect(writes).toEqual([]);
});
