import type { PhaseChange } from "@millrace/db";
import {
  type BrokerExit,
  type Cluster,
  type ClusterPhase,
  type Condition,
  canTransition,
  type Operation,
  systemClock,
} from "@millrace/domain";
import {
  type ClusterDrivers,
  type Observation,
  ProvisionError,
  type StartOptions,
} from "@millrace/provisioner";
import { pino } from "pino";
import { beforeEach, describe, expect, test } from "vitest";
import { ClusterSupervisor } from "./cluster-supervisor.ts";

const ID = "clu_01JD0000000000000000000000";
const placement = { host: "127.0.0.1", kafkaPort: 19_092, adminPort: 19_592 };

/** One cluster, its row and its broker, both played by variables. */
let phase: ClusterPhase;
let message: string | undefined;
let conditions: readonly Condition[];
let lastExit: BrokerExit | undefined;
let lastExitFails: boolean;
let writes: number;
let paused: boolean;
let stops: number;
let observation: Observation;
let brokers: number;
/** Of those of several brokers that are not as `observation` says. */
let observations: Map<number, Observation>;
/** Which of several brokers were started, in order. */
let started: (number | undefined)[];
let starts: number;
let startFails: boolean;
let asPrepared: boolean | undefined;
let underWay: Operation | undefined;
let now: number;
let supervisor: ClusterSupervisor;

const cluster = () =>
  ({
    id: ID,
    phase,
    conditions,
    placement,
    paused,
    brokers,
    region: "local",
  }) as unknown as Cluster;

function record(to: ClusterPhase, changed: readonly Condition[] = []): Cluster {
  phase = to;
  conditions = changed;
  message = changed[0]?.message;
  writes += 1;
  return cluster();
}

const clusters = {
  inPhases: async (phases: readonly ClusterPhase[]) => (phases.includes(phase) ? [cluster()] : []),
  load: async () => cluster(),
  changePhase: async (_id: string, change: PhaseChange) => {
    if (!canTransition(phase, change.to) || change.from?.includes(phase) === false) {
      return undefined;
    }
    return record(change.to, change.conditions);
  },
  setConditions: async (_id: string, from: ClusterPhase, changed: readonly Condition[]) =>
    phase === from ? record(from, changed) : undefined,
};

const HERE = { startsBrokers: true, observeIntervalMs: 0, absentMessage: "The folder is missing." };
/** Of a driver whose brokers run elsewhere: the provider restarts them. */
const REMOTE = { startsBrokers: false, observeIntervalMs: 30_000, absentMessage: "No resources." };

const driver = {
  capabilities: HERE,
  stop: async () => {
    stops += 1;
    observation = "stopped";
  },
  observe: async (_: unknown, brokerId = 0) => observations.get(brokerId) ?? observation,
  lastExit: async () => {
    if (lastExitFails) throw new ProvisionError("throttled", "cannot read the slot's report");
    return lastExit;
  },
  maintain: async () => {},
  ensureRunning: async (_: unknown, options?: StartOptions) => {
    asPrepared = options?.asPrepared;
    started.push(options?.brokerId);
    starts += 1;
    if (startFails) throw new ProvisionError("start_failed", "cannot start the broker program");
  },
};

beforeEach(() => {
  phase = "RUNNING";
  driver.capabilities = HERE;
  paused = false;
  stops = 0;
  message = undefined;
  conditions = [];
  lastExit = undefined;
  lastExitFails = false;
  writes = 0;
  observation = "ready";
  brokers = 1;
  observations = new Map();
  started = [];
  starts = 0;
  startFails = false;
  asPrepared = undefined;
  underWay = undefined;
  now = 1_000_000;
  supervisor = new ClusterSupervisor({
    db: {
      fleet: { clusters },
      tenant: () => ({ clusters, operations: { underWay: async () => underWay } }),
    } as never,
    clock: systemClock,
    drivers: { find: () => driver } as unknown as ClusterDrivers,
    deploymentOf: ({ id }) => ({
      clusterId: id,
      organizationId: "org_a",
      environmentId: "env_a",
      name: "orders",
      region: "local",
      size: "dev",
      brokers,
      paused: false,
      plaintextListener: true,
      labels: {},
      placement,
      walCapacityBytes: 1,
      properties: {},
    }),
    logger: pino({ level: "silent" }),
    now: () => now,
  });
});

async function ticks(count: number, stepMs = 1_000): Promise<void> {
  for (let tick = 0; tick < count; tick += 1) {
    await supervisor.runOnce();
    await supervisor.close();
    now += stepMs;
  }
}

test("a healthy cluster is left alone", async () => {
  await ticks(5);
  expect([phase, starts]).toEqual(["RUNNING", 0]);
});

describe("while a change of the cluster waits for approval", () => {
  const waiting = (from: ClusterPhase, attempt = 0) =>
    ({
      kind: "cluster.update",
      steps: [
        { name: "approve", attempt: 1 },
        { name: "restart_broker", attempt },
      ],
      parameters: { origin: { phase: from, spec: {} } },
    }) as unknown as Operation;

  beforeEach(() => {
    phase = "UPDATING";
    observation = "stopped";
  });

  test("a broker that died is restarted with its configuration as it is", async () => {
    underWay = waiting("RUNNING");
    await ticks(1);
    expect([starts, asPrepared]).toEqual([1, true]);
  });

  test("a broker that did not run is not started", async () => {
    underWay = waiting("PAUSED");
    await ticks(3);
    expect(starts).toBe(0);
  });

  test("and once the operation changes the broker, it starts with the new configuration", async () => {
    underWay = waiting("RUNNING", 1);
    await ticks(1);
    expect([starts, asPrepared]).toEqual([1, false]);
  });
});

test("a broker that died is restarted at once; the cluster is DEGRADED until it is ready", async () => {
  observation = "stopped";
  await ticks(1);
  expect([phase, message, starts]).toEqual(["DEGRADED", "The broker has stopped.", 1]);
  observation = "starting";
  await ticks(3);
  expect([phase, starts]).toEqual(["DEGRADED", 1]);
  observation = "ready";
  await ticks(1);
  expect([phase, starts]).toEqual(["RUNNING", 1]);
  expect(message).toMatch(/^The cluster serves clients\. Restarted once in 10 min: /);
});

test("a broker that keeps dying is restarted with increasing waits of up to three seconds", async () => {
  observation = "stopped";
  await ticks(60);
  // At 0, 1, 2, 3 and 5 seconds, then every three: 8, 11, … 59.
  expect(starts).toBe(5 + 18);
  expect(phase).toBe("DEGRADED");
});

test("a broker that was asked to stop is started again without a warning", async () => {
  lastExit = { code: 0, reason: "it was asked to stop" };
  observation = "stopped";
  await ticks(1);
  expect(message).toBe("The broker has stopped: it was asked to stop.");
  expect(starts).toBe(1);
  observation = "ready";
  await ticks(1);
  expect(phase).toBe("RUNNING");
  expect(conditions[0]?.reason).not.toBe("ServingAfterRestarts");
});

const PANICKED = { code: 79, reason: "the task upload panicked: out of order" };

test("the condition counts the restarts of the last ten minutes and gives the reason", async () => {
  lastExit = PANICKED;
  observation = "stopped";
  await ticks(1);
  expect(message).toBe("The broker has stopped: the task upload panicked: out of order.");
  await ticks(20);
  expect(starts).toBe(10);
  expect(message).toMatch(
    /^The broker has stopped\. Restarted \d+ times in 10 min: the task upload/,
  );
  // Each write of the row raises its ETag.
  expect(writes).toBeLessThanOrEqual(4);
  observation = "ready";
  await ticks(1);
  expect([phase, message]).toEqual([
    "RUNNING",
    "The cluster serves clients. Restarted 10 times in 10 min: the task upload panicked: out of order.",
  ]);
  expect(conditions[0]?.reason).toBe("ServingAfterRestarts");
  await ticks(2, 600_000);
  expect([message, conditions[0]?.reason]).toEqual(["The cluster serves clients.", "Serving"]);
});

test("a failure that a restart cannot fix stops the restarts and says what to do", async () => {
  lastExit = { code: 78, reason: "s3.data.buckets: no such bucket; create it" };
  observation = "stopped";
  await ticks(60);
  expect([phase, starts]).toEqual(["DEGRADED", 1]);
  expect(conditions[0]?.reason).toBe("BrokerCannotStart");
  expect(message).toBe(
    "The broker rejects its configuration. Correct it, then pause and resume the cluster.",
  );
  expect(conditions[0]?.detail).toBe("s3.data.buckets: no such bucket; create it.");
});

for (const code of [64, 65, 78]) {
  test(`exit code ${code} is final`, async () => {
    lastExit = { code, reason: "refused" };
    observation = "stopped";
    await ticks(30);
    expect(starts).toBe(1);
  });
}

for (const code of [1, 70, 75, 79, undefined]) {
  test(`exit code ${code} is restarted`, async () => {
    lastExit = { code, reason: "failed" };
    observation = "stopped";
    await ticks(30);
    expect(starts).toBeGreaterThan(10);
  });
}

test("pausing and resuming starts a broker whose restarts were stopped", async () => {
  lastExit = { code: 65, reason: "another cluster's log" };
  observation = "stopped";
  await ticks(30);
  expect(starts).toBe(1);
  [phase, paused] = ["PAUSED", true];
  await ticks(1);
  [phase, paused] = ["RUNNING", false];
  await ticks(30);
  expect(starts).toBe(2);
});

test("a failed start is retried and does not end the supervision", async () => {
  observation = "stopped";
  startFails = true;
  await ticks(4);
  expect(starts).toBe(4);
  expect(phase).toBe("DEGRADED");
  await ticks(10);
  expect(message).toContain("cannot start the broker program");
});

test("a broker that runs and does not answer degrades the cluster after a while", async () => {
  observation = "starting";
  await ticks(5);
  expect(phase).toBe("RUNNING");
  await ticks(2);
  expect([phase, starts]).toEqual(["DEGRADED", 0]);
  expect(message).toContain("does not answer");
});

test("a cluster whose data folder is missing is reported, never restarted", async () => {
  observation = "absent";
  await ticks(10);
  expect([phase, starts]).toEqual(["DEGRADED", 0]);
  expect(message).toContain("missing");
});

test("an absent cluster is reported in the driver's words", async () => {
  driver.capabilities = REMOTE;
  observation = "absent";
  await ticks(1);
  expect([phase, starts]).toEqual(["DEGRADED", 0]);
  expect(message).toBe("No resources.");
});

test("a provider that hangs does not delay other clusters, and gets one request at a time", async () => {
  const asked: string[] = [];
  let answer = () => {};
  const hanging = {
    capabilities: REMOTE,
    observe: () => {
      asked.push("aws");
      return new Promise<Observation>((resolve) => {
        answer = () => resolve("ready");
      });
    },
    maintain: async () => {},
  };
  const here = {
    ...driver,
    observe: async () => {
      asked.push("local");
      return "ready" as const;
    },
  };
  const two = [{ ...cluster(), id: "clu_far", region: "eu-central-1" }, cluster()];
  const both = new ClusterSupervisor({
    db: {
      fleet: { clusters: { ...clusters, inPhases: async () => two } },
      tenant: () => ({ clusters }),
    } as never,
    clock: systemClock,
    drivers: { find: (region: string) => (region === "local" ? here : hanging) } as never,
    deploymentOf: () => ({}) as never,
    logger: pino({ level: "silent" }),
    now: () => now,
  });
  for (let tick = 0; tick < 3; tick += 1) {
    await both.runOnce();
    await new Promise(setImmediate);
    now += 60_000;
  }
  expect(asked).toEqual(["aws", "local", "local", "local"]);
  answer();
  await both.close();
  await both.runOnce();
  expect(asked.filter((name) => name === "aws")).toHaveLength(2);
  answer();
  await both.close();
});

test("on AWS the condition says why no broker starts, if the driver knows", async () => {
  driver.capabilities = REMOTE;
  observation = "starting";
  lastExit = { code: 65, reason: "the slot's volume was lost: recover the cluster" };
  await ticks(2, 31_000);
  expect([phase, starts]).toEqual(["DEGRADED", 0]);
  expect(message).toBe(
    "The broker does not start: the slot's volume was lost: recover the cluster.",
  );
});

test.each(["starting", "stopped"] as const)(
  "a broker that is %s degrades the cluster even if the reason cannot be read",
  async (seen) => {
    driver.capabilities = REMOTE;
    observation = seen;
    lastExitFails = true;
    await ticks(2, 31_000);
    expect(phase).toBe("DEGRADED");
    expect(message).toBe(
      seen === "stopped" ? "The broker has stopped." : "The broker runs but does not answer.",
    );
  },
);

test("on AWS a broker that stopped is reported, and restarted by its Auto Scaling group", async () => {
  driver.capabilities = REMOTE;
  observation = "stopped";
  await ticks(40);
  expect([phase, starts]).toEqual(["DEGRADED", 0]);
  observation = "ready";
  await ticks(31);
  expect([phase, starts]).toEqual(["RUNNING", 0]);
});

describe("a paused cluster", () => {
  beforeEach(() => {
    phase = "PAUSED";
    paused = true;
  });

  test("is left alone while its broker does not run", async () => {
    observation = "stopped";
    await ticks(3);
    expect([phase, starts, stops]).toEqual(["PAUSED", 0, 0]);
  });

  test("whose broker was started anyway is stopped", async () => {
    observation = "ready";
    await ticks(3);
    expect([phase, starts, stops]).toEqual(["PAUSED", 0, 1]);
  });

  test("is left to its operation during pause and resume", async () => {
    phase = "UPDATING";
    observation = "ready";
    await ticks(2);
    observation = "stopped";
    await ticks(8);
    expect([phase, starts, stops]).toEqual(["UPDATING", 0, 0]);
  });
});

describe("a cluster that is not to run", () => {
  for (const other of ["PROVISIONING", "FAILED", "DELETING", "DELETED"] as const) {
    test(`is not touched in ${other}`, async () => {
      phase = other;
      observation = "stopped";
      await ticks(3);
      expect([phase, starts]).toEqual([other, 0]);
    });
  }

  test("is not started if its deletion starts during the observation", async () => {
    observation = "stopped";
    const change = clusters.changePhase;
    clusters.changePhase = async (id, to) => {
      const changed = await change(id, to);
      phase = "DELETING";
      return changed;
    };
    try {
      await ticks(1);
    } finally {
      clusters.changePhase = change;
    }
    expect([phase, starts]).toEqual(["DELETING", 0]);
  });
});

describe("several brokers", () => {
  beforeEach(() => {
    brokers = 3;
  });

  test("each is started again by itself", async () => {
    lastExit = { code: 79, reason: "the task upload panicked" };
    observations.set(2, "stopped");
    await ticks(1);
    expect([phase, started]).toEqual(["DEGRADED", [2]]);
    expect(message).toBe(
      "Broker 2 has stopped: the task upload panicked. The other brokers serve.",
    );
    observations.clear();
    await ticks(1);
    expect(phase).toBe("RUNNING");
    expect(message).toBe(
      "The cluster serves clients. Broker 2: Restarted once in 10 min: the task upload panicked.",
    );
  });

  test("one that cannot start keeps no caller from the others", async () => {
    lastExit = { code: 65, reason: "the log is that of another node" };
    observations.set(3, "stopped");
    await ticks(60);
    expect([phase, started]).toEqual(["DEGRADED", [3]]);
    expect(conditions[0]).toMatchObject({ reason: "BrokerDown" });
    observation = "stopped";
    await ticks(1);
    expect(message).toContain("3 of 3 brokers do not serve.");
    expect(started).toEqual([3, 1, 2]);
  });

  test("those that an approved operation is still to start are not missed", async () => {
    phase = "UPDATING";
    brokers = 4;
    const parameters = { origin: { phase: "RUNNING", spec: { brokers: 3 } } };
    underWay = { kind: "cluster.update", steps: [], parameters } as unknown as Operation;
    observations.set(4, "absent").set(1, "stopped");
    await ticks(1);
    expect([phase, started, asPrepared]).toEqual(["UPDATING", [1], true]);
    underWay = { ...underWay, steps: [{ name: "restart_broker", attempt: 1 }] } as never;
    observations.delete(1);
    await ticks(2);
    expect([phase, started]).toEqual(["UPDATING", [1]]);
  });

  test("stop together where the cluster is paused", async () => {
    phase = "PAUSED";
    paused = true;
    observation = "partial";
    await ticks(2);
    expect(stops).toBe(1);
  });
});
