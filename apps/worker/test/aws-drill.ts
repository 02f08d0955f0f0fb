/**
 * A cluster's life cycle on an emulated AWS, while the worker or Terraform is killed at random instants. Each
 * operation must still end correctly, create nothing twice and lose no data, and in the end nothing is left.
 */
import { setTimeout as sleep } from "node:timers/promises";
import {
  type Core,
  checkDrift,
  coreOf,
  createCluster,
  createCore,
  deleteCluster,
  pauseCluster,
  reconcileCluster,
  restoreCluster,
  resumeCluster,
  retryOperation,
  updateCluster,
} from "@millrace/core";
import type { Cluster, ClusterId, ClusterPhase, Operation, Principal } from "@millrace/domain";
import {
  changeThroughput,
  dataOf,
  madeTwice,
  secretsOf,
} from "../../../packages/provisioner/test/aws-by-hand.ts";
import { leftOf } from "../../../packages/provisioner/test/aws-leftovers.ts";
import { REGION } from "../../../packages/provisioner/test/moto.ts";
import { seededRandom } from "../../../packages/provisioner/test/seeded-random.ts";
import type { AwsSite } from "./aws-site.ts";

export interface DrillOptions {
  readonly kills: number;
  readonly seed: number;
  /** A change, and the way out; without drift, pauses and the way back. */
  readonly short?: boolean;
  readonly say: (line: string) => void;
}

export interface DrillReport {
  /** Of the worker, and of Terraform. */
  readonly kills: { readonly worker: number; readonly terraform: number };
  readonly retries: number;
  readonly operations: number;
  /** Claims of all operations: each kill of a worker at work costs one. */
  readonly attempts: number;
  readonly seconds: number;
}

/** Longest pause before a kill. */
const KILL_AFTER_MS_MAX = 8_000;
/** So many of the kills wait until things are being made: else most would hit the plans before. */
const AIMED = 0.5;
/** And come while they are: a short operation is through after this. */
const AIMED_KILL_AFTER_MS_MAX = 3_000;
const AIM_MS_MAX = 180_000;
const OPERATION_MS_MAX = 15 * 60_000;
const RETRIES_MAX = 20;
/** Shares of all kills that are left after the pauses, and for the last deletion and the purge. */
const KILLS_AFTER_PAUSES = 0.5;
const KILLS_FOR_THE_END = 0.1;
/** A bound, because a run may finish before it is killed. */
const ROUNDS_MAX = 5;
const POLL_MS = 100;

/** Returns a report, or throws at the first violation. */
export async function drill(site: AwsSite, options: DrillOptions): Promise<DrillReport> {
  return new Drill(site, options, await tenantOf(site)).run();
}

class Drill {
  readonly #site: AwsSite;
  readonly #options: DrillOptions;
  readonly #core: Core;
  readonly #principal: Principal;
  readonly #kills = { worker: 0, terraform: 0 };
  readonly #random: () => number;
  #killsLeft: number;
  #retries = 0;
  #operations = 0;
  #attempts = 0;
  #clusterId: ClusterId = "clu_";
  /** The volumes and buckets of the creation, which stay the same until the purge. */
  #data: { volumes: string[]; buckets: string[] } = { volumes: [], buckets: [] };

  constructor(
    site: AwsSite,
    options: DrillOptions,
    { core, principal }: { core: Core; principal: Principal },
  ) {
    this.#site = site;
    this.#options = options;
    this.#core = core;
    this.#principal = principal;
    this.#random = seededRandom(options.seed);
    this.#killsLeft = options.kills;
  }

  async run(): Promise<DrillReport> {
    const begun = performance.now();
    await this.#site.startWorker();
    const { cluster, operation } = await createCluster(this.#core, this.#principal, {
      name: "drilled",
      region: REGION,
      size: "dev",
    });
    this.#clusterId = cluster.id;
    // Shares of the kills that are left: the long operations get most of them.
    await this.#through(operation, "RUNNING", 0.35);
    this.#data = await dataOf(this.#site.endpoint, this.#clusterId);
    assertEqual("volumes and buckets made", counts(this.#data), [1, 1]);
    await this.#assertSealed();
    // Before any change: the emulator launches no instance from a template's second version.
    if (!this.#options.short) await this.#rest();
    await this.#change();
    if (!this.#options.short) {
      await this.#drift();
      await this.#comeBack();
    }
    await this.#end();
    return {
      kills: this.#kills,
      retries: this.#retries,
      operations: this.#operations,
      attempts: this.#attempts,
      seconds: Math.round((performance.now() - begun) / 1_000),
    };
  }

  async #change(): Promise<void> {
    const { operation } = await updateCluster(this.#core, this.#principal, {
      clusterId: this.#clusterId,
      patch: { wal: { throughputMibps: 250, iops: 4_000 } },
    });
    if (!operation) throw new Error("a change of the volume takes an operation");
    await this.#through(operation, "RUNNING", 0.3);
    await this.#assertThroughput(250);
  }

  async #drift(): Promise<void> {
    const [volume = ""] = this.#data.volumes;
    await changeThroughput(this.#site.endpoint, volume, 500);
    const target = { clusterId: this.#clusterId };
    const look = await checkDrift(this.#core, this.#principal, target);
    await this.#through(look, "RUNNING", 0.2);
    assertEqual("drift by hand", (await this.#cluster()).drift.status, "drifted");
    const reconciling = await reconcileCluster(this.#core, this.#principal, target);
    await this.#through(reconciling, "RUNNING", 0.2);
    await this.#assertThroughput(250);
    await this.#assertInSync();
  }

  async #rest(): Promise<void> {
    const target = { clusterId: this.#clusterId };
    for (let round = 0; round < ROUNDS_MAX; round += 1) {
      await this.#through(await pauseCluster(this.#core, this.#principal, target), "PAUSED", 0.25);
      await this.#through(
        await resumeCluster(this.#core, this.#principal, target),
        "RUNNING",
        0.25,
      );
      if (this.#killsLeft <= this.#options.kills * KILLS_AFTER_PAUSES) break;
    }
    await this.#assertInSync();
  }

  async #comeBack(): Promise<void> {
    const target = { clusterId: this.#clusterId };
    for (let round = 0; round < ROUNDS_MAX; round += 1) {
      const deletion = await deleteCluster(this.#core, this.#principal, {
        ...target,
        retainDays: 7,
      });
      await this.#through(deletion, "PENDING_PURGE", 0.35);
      const restoring = await restoreCluster(this.#core, this.#principal, target);
      await this.#through(restoring, "RUNNING", 0.5);
      if (this.#killsLeft <= this.#options.kills * KILLS_FOR_THE_END) break;
    }
  }

  async #end(): Promise<void> {
    const target = { clusterId: this.#clusterId };
    const deletion = await deleteCluster(this.#core, this.#principal, { ...target, retainDays: 7 });
    await this.#through(deletion, "PENDING_PURGE", 0.4);
    const purge = await deleteCluster(this.#core, this.#principal, { ...target, retainDays: 0 });
    await this.#through(purge, "DELETED", 1);
    assertEqual("left by tags and names", await leftOf(this.#site.endpoint, this.#clusterId), []);
    assertEqual("states kept of what is gone", await this.#state(), undefined);
  }

  /** Runs an operation to its end through its share of the kills, then checks everything. */
  async #through(operation: Operation, phase: ClusterPhase, share: number): Promise<void> {
    const kills = Math.round(this.#killsLeft * share);
    const begun = performance.now();
    this.#operations += 1;
    const killed = await this.#killing(operation, kills);
    const ended = await this.#ended(operation);
    this.#attempts += ended.attempt;
    const seconds = Math.round((performance.now() - begun) / 1_000);
    const { kind, attempt } = ended;
    this.#options.say(`${kind}: ${seconds} s, ${killed} kills, ${attempt} attempts, ${phase}`);
    assertEqual("phase", (await this.#cluster()).phase, phase);
    await this.#assertWhole(phase);
  }

  async #killing(operation: Operation, kills: number): Promise<number> {
    for (let killed = 0; killed < kills; killed += 1) {
      const isAimed = this.#random() < AIMED;
      if (isAimed) await this.#untilApplied(operation);
      await sleep(this.#random() * (isAimed ? AIMED_KILL_AFTER_MS_MAX : KILL_AFTER_MS_MAX));
      const now = await this.#retriedWhereFailed(operation);
      if (now.done) return killed;
      await this.#kill(now);
    }
    return kills;
  }

  /** Until Terraform carries the plan out, or checks for drift, or the operation is through. */
  async #untilApplied(operation: Operation): Promise<void> {
    const deadline = performance.now() + AIM_MS_MAX;
    while (performance.now() < deadline) {
      const now = await this.#retriedWhereFailed(operation);
      const isAtIt = stepOf(now) === "apply" || stepOf(now) === "detect_drift";
      if (now.done || (isAtIt && this.#site.terraforms().length > 0)) return;
      await sleep(POLL_MS);
    }
  }

  async #kill(operation: Operation): Promise<void> {
    const [terraform] = this.#site.terraforms();
    this.#killsLeft -= 1;
    const who = terraform !== undefined && this.#random() < 0.5 ? "Terraform" : "the worker";
    this.#options.say(`killing ${who} in ${operation.kind}, ${stepOf(operation)}`);
    if (who === "Terraform" && terraform !== undefined) {
      this.#kills.terraform += 1;
      process.kill(terraform, "SIGKILL");
      return;
    }
    this.#kills.worker += 1;
    await this.#site.killWorker();
    await this.#site.startWorker();
  }

  async #ended(operation: Operation): Promise<Operation> {
    const deadline = performance.now() + OPERATION_MS_MAX;
    for (;;) {
      const now = await this.#retriedWhereFailed(operation);
      if (now.done) return now;
      if (performance.now() > deadline)
        throw new Error(`${now.kind} is not through: ${stepOf(now)}`);
      await sleep(POLL_MS);
    }
  }

  /** Enough kills of Terraform fail an operation; its caller retries it. */
  async #retriedWhereFailed(operation: Operation): Promise<Operation> {
    const now = await this.#site.db.operations.load(operation.id);
    if (!now) throw new Error(`there is no operation ${operation.id}`);
    if (now.phase !== "FAILED") return now;
    this.#options.say(`${now.kind} failed at ${now.error?.step}: ${now.error?.message}`);
    this.#retries += 1;
    if (this.#retries > RETRIES_MAX) throw new Error("it fails again and again");
    return retryOperation(this.#core, this.#principal, operation.id);
  }

  /** Invariants after each operation, whatever was killed in it. */
  async #assertWhole(phase: ClusterPhase): Promise<void> {
    const { endpoint } = this.#site;
    assertEqual("Terraforms at work", this.#site.terraforms(), []);
    assertEqual("made twice", await madeTwice(endpoint, this.#clusterId), []);
    const { volumes, buckets } = await dataOf(endpoint, this.#clusterId);
    if (phase === "DELETED") return assertEqual("data left", [volumes, buckets], [[], []]);
    if (this.#data.volumes.length > 0) {
      assertEqual("data", [volumes, buckets], [this.#data.volumes, this.#data.buckets]);
    }
    const stored = await this.#state();
    const here = this.#site.stateFile(this.#clusterId);
    const heads = [stored?.serial, stored?.lineage];
    assertEqual("state in the database", heads, [here?.serial, here?.lineage]);
  }

  /** The state matches the real resources, as Terraform refreshes them one by one. */
  async #assertInSync(): Promise<void> {
    const look = await checkDrift(this.#core, this.#principal, { clusterId: this.#clusterId });
    await this.#through(look, "RUNNING", 0);
    assertEqual("drift", (await this.#cluster()).drift.status, "in_sync");
  }

  /** No column of the database contains plain text or secrets of the state. */
  async #assertSealed(): Promise<void> {
    const secrets = await secretsOf(this.#site.endpoint, this.#clusterId);
    if (secrets.length === 0) throw new Error("a cluster has an admin token");
    const words = ['"mode": "managed"', '"mode":"managed"', ...secrets];
    assertEqual("tables with plain text", await this.#site.tablesWith(words), []);
  }

  async #assertThroughput(mibps: number): Promise<void> {
    const { throughputs } = await dataOf(this.#site.endpoint, this.#clusterId);
    assertEqual("throughput", throughputs, [mibps]);
  }

  #state() {
    return this.#site.db.terraformStates.load(this.#clusterId);
  }

  async #cluster(): Promise<Cluster> {
    const cluster = await this.#site.db.clusters.load(this.#clusterId);
    if (!cluster) throw new Error("a cluster's row stays");
    return cluster;
  }
}

/** A tenant of the site, and its owner. */
export async function tenantOf({
  db,
  organizationId: id,
}: AwsSite): Promise<{ core: Core; principal: Principal }> {
  const organization = await db.organizations.create({ id, name: "Tenant", slug: "tenant" });
  await db.organizations.ensureEnvironment(organization.id, "default");
  const unused = async (): Promise<never> => {
    throw new Error("the drill asks no broker");
  };
  const parts = createCore({
    db,
    secret: "a secret of the tests, long enough",
    brokerHttp: unused,
    drivers: {
      local: { plan: unused, allocate: unused, rootCertificate: unused },
      awsPlanner: undefined,
      localAvailable: true,
      awsRegion: "eu-central-1",
    },
  });
  const core = coreOf(parts, id);
  const userId = "usr_01JD0000000000000000000000";
  const { id: organizationId } = organization;
  return { core, principal: { organizationId, role: "owner", userId, apiKeyId: undefined } };
}

function counts({ volumes, buckets }: { volumes: string[]; buckets: string[] }): number[] {
  return [volumes.length, buckets.length];
}

function stepOf({ steps }: Operation): string {
  return steps.find((step) => step.state === "RUNNING")?.name ?? "between two steps";
}

function assertEqual(what: string, found: unknown, wanted: unknown): void {
  const [is, should] = [JSON.stringify(found), JSON.stringify(wanted)];
  if (is !== should) throw new Error(`${what}: ${is}, should be ${should}`);
}
