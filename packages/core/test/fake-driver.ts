import type { BenchmarkLoad, BenchmarkReport, BenchmarkSample } from "@millrace/domain";
import {
  type BenchmarkOptions,
  type BrokerAccess,
  type ChangePlan,
  type ClusterDeployment,
  type ClusterDriver,
  changePlan,
  type DriverCapabilities,
  type Observation,
  type Placement,
  type PlannedChange,
  type PlanOptions,
  ProvisionError,
  type RestartOptions,
  type RunOptions,
  recoveryPlan,
  type SweepReport,
} from "@millrace/provisioner";

/**
 * Brokers in memory. It keeps what would be on disk, so that it outlives a worker that dies, and
 * counts what a repeated call must not do twice.
 */
export class FakeDriver implements ClusterDriver {
  readonly name = "local";
  readonly capabilities: DriverCapabilities = {
    startsBrokers: true,
    exclusive: true,
    observeIntervalMs: 0,
    absentMessage: "nothing of it exists",
  };
  readonly states = new Map<string, Exclude<Observation, "absent">>();
  /** Every effect in order, as `verb cluster`. */
  readonly effects: string[] = [];
  /** Called before each effect takes place; throws to interrupt. */
  before: (effect: string) => Promise<void> = async () => {};
  /** What a recovery would bring back, as `millrace recover --json` says it. */
  recovery = {
    ...{ source: "bucket", recovered_to: "2026-11-22T10:00:00Z", topics: 1, partitions: 1 },
    ...{ records_from_wal: "0", bytes_from_wal: "0", missing: [] as object[], warnings: [] },
  };
  #nextPort = 30_000;

  async allocate(_clusterId: string, taken: readonly Placement[]): Promise<Placement> {
    while (taken.some((each) => each.kafkaPort === this.#nextPort)) this.#nextPort += 2;
    return { host: "127.0.0.1", kafkaPort: this.#nextPort, adminPort: this.#nextPort + 1 };
  }

  async prepare({ clusterId }: ClusterDeployment): Promise<void> {
    await this.#effect("prepare", clusterId);
    if (!this.states.has(clusterId)) this.states.set(clusterId, "stopped");
  }

  async isPrepared({ clusterId }: ClusterDeployment): Promise<boolean> {
    return this.states.has(clusterId);
  }

  async ensureRunning({ clusterId }: ClusterDeployment): Promise<void> {
    if (this.states.get(clusterId) !== "stopped") return;
    await this.#effect("start", clusterId);
    this.states.set(clusterId, "starting");
  }

  async waitReady({ clusterId }: ClusterDeployment): Promise<void> {
    await this.#effect("wait", clusterId);
    this.states.set(clusterId, "ready");
  }

  async observe({ clusterId }: ClusterDeployment): Promise<Observation> {
    return this.states.get(clusterId) ?? "absent";
  }

  async lastExit(): Promise<undefined> {
    return undefined;
  }

  async access({ placement }: ClusterDeployment): Promise<BrokerAccess> {
    const { host, kafkaPort, adminPort } = placement;
    return {
      kafka: async () => ({ bootstrapServers: `${host}:${kafkaPort}` }),
      adminUrl: `http://${host}:${adminPort}`,
      adminToken: "token",
    };
  }

  async stop(clusterId: string): Promise<void> {
    if (!this.states.has(clusterId) || this.states.get(clusterId) === "stopped") return;
    await this.#effect("stop", clusterId);
    this.states.set(clusterId, "stopped");
  }

  async restart(
    { clusterId }: ClusterDeployment,
    { brokerId }: RestartOptions = {},
  ): Promise<void> {
    await this.#effect(brokerId === undefined ? "restart" : `restart-${brokerId}`, clusterId);
    this.states.set(clusterId, "ready");
  }

  async destroy(clusterId: string, { onDestroying }: RunOptions = {}): Promise<void> {
    await onDestroying?.();
    await this.#effect("destroy", clusterId);
    this.states.delete(clusterId);
  }

  async isDestroyed(clusterId: string): Promise<boolean> {
    return !this.states.has(clusterId);
  }

  async list(): Promise<readonly string[]> {
    return [...this.states.keys()];
  }

  async maintain(): Promise<void> {}

  async rootCertificate(): Promise<undefined> {
    return undefined;
  }

  async plan(deployment: ClusterDeployment, { purpose }: PlanOptions): Promise<ChangePlan> {
    await this.before("plan");
    if (purpose === "recover") return recoveryPlan(JSON.stringify(this.recovery));
    const { clusterId } = deployment;
    const seen = this.states.get(clusterId);
    const running = seen === "starting" || seen === "ready";
    const wanted = purpose === "drift" ? running : purpose === "apply" && !deployment.paused;
    const changes: PlannedChange[] = [];
    if (running !== wanted) {
      const action = wanted ? "create" : "delete";
      changes.push({ address: "process", type: "process", action, attributes: [] });
    }
    if (purpose === "purge" && seen !== undefined) {
      changes.push({ address: "folder", type: "folder", action: "delete", attributes: [] });
    }
    return changePlan(`fake-${purpose}-${clusterId}`, changes);
  }

  async apply(
    deployment: ClusterDeployment,
    planId: string,
    options: RunOptions = {},
  ): Promise<void> {
    await this.before("apply");
    if (planId.startsWith("recover-")) {
      if (recoveryPlan(JSON.stringify(this.recovery)).id !== planId) {
        throw new ProvisionError("plan_stale", "another loss");
      }
      return await this.#effect("recover", deployment.clusterId);
    }
    const [, purpose, clusterId] = planId.split("-");
    if (clusterId !== deployment.clusterId) {
      throw new ProvisionError("plan_stale", `plan ${planId} belongs to another cluster`);
    }
    if (purpose === "purge") return await this.destroy(clusterId, options);
    if (purpose !== "apply" || deployment.paused) return await this.stop(clusterId);
    await this.prepare(deployment);
    await this.ensureRunning(deployment);
  }

  async drift(deployment: ClusterDeployment): Promise<ChangePlan> {
    return await this.plan(deployment, { purpose: "drift" });
  }

  async sweep(): Promise<SweepReport> {
    return { imported: [], removed: [], left: [] };
  }

  /** What loads measure, second by second. */
  samples: readonly BenchmarkSample[] = [];
  /** Called when a load has given its samples; throws to fail, never returns to go on for ever. */
  duringLoad: (options: BenchmarkOptions) => Promise<void> = async () => {};

  async runLoad(
    { clusterId }: ClusterDeployment,
    load: BenchmarkLoad,
    options: BenchmarkOptions,
  ): Promise<BenchmarkReport> {
    await this.#effect("load", clusterId);
    this.loads.push(load);
    for (const sample of this.samples) options.onSample(sample);
    await this.duringLoad(options);
    const [last] = this.samples.slice(-1);
    return {
      ...{ durationSeconds: load.testSeconds, produced: last?.produced, consumed: last?.consumed },
      ...{ endToEndLatencyMs: undefined, catchUp: undefined, unsentRecords: 0 },
    };
  }

  readonly loads: BenchmarkLoad[] = [];

  async endLoad(topic: string): Promise<void> {
    this.endedLoads.push(topic);
  }

  /** Topics whose loads were ended. */
  readonly endedLoads: string[] = [];

  async #effect(verb: string, clusterId: string): Promise<void> {
    await this.before(verb);
    this.effects.push(`${verb} ${clusterId}`);
  }
}
