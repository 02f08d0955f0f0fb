/**
 * Clusters on AWS, which Terraform creates from synthesized stacks.
 *
 * Each cluster has a folder with its stack, its state and its plans (terraform/workspace.ts). Nothing in it is
 * the only copy: the control plane's database has the encrypted state as well, and resources missing from both
 * are found by their tags or names before each plan. So a run may be killed at any point, and the next one, on
 * this machine or another, continues.
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { BrokerHttp } from "@millrace/broker-admin";
import { type BrokerExit, brokerIdsOf, type ClusterId } from "@millrace/domain";
import { type ClusterNames, clusterNames, KAFKA_PORT_BOOTSTRAP } from "@millrace/infra";
import {
  type ChangePlan,
  isEmptyPlan,
  type PlanOptions,
  type RunOptions,
  type SweepReport,
} from "../change-plan.ts";
import {
  type BrokerAccess,
  type ClusterDeployment,
  type ClusterDriver,
  type DriverCapabilities,
  type Observation,
  type Placement,
  ProvisionError,
  type ProvisionErrorCode,
  type WaitOptions,
} from "../cluster-driver.ts";
import { awsAccess, type Gateways, type LinkCredentials, linkedAdmin } from "../control-link.ts";
import { KeyedLock } from "../local/keyed-lock.ts";
import { type ProcessTable, systemProcessTable } from "../local/process-table.ts";
import { isRecoveryPlanId } from "../recovery-plan.ts";
import { parseState, StateCopy, type StateDocument } from "../terraform/state-copy.ts";
import type { StateSeal } from "../terraform/state-seal.ts";
import {
  checkTerraform,
  type TerraformProgram,
  writeCliConfig,
} from "../terraform/terraform-program.ts";
import type { TerraformStates } from "../terraform/terraform-states.ts";
import { Workspace } from "../terraform/workspace.ts";
import { AwsAccount, type AwsAccountSettings } from "./aws-account.ts";
import { type ClusterHealth, clusterHealth } from "./cluster-health.ts";
import { lastDeployment } from "./deployment-files.ts";
import { issueCredentials } from "./issue-credentials.ts";
import { OfflinePlanner } from "./offline-planner.ts";
import { askingAws } from "./sdk-errors.ts";
import { SeveralSlots, type Waits } from "./several-slots.ts";
import { SlotRecovery } from "./slot-recovery.ts";
import { nextToReplace, outdatedInstances, replaceInstance } from "./slot-roll.ts";
import { StackRun } from "./stack-run.ts";
import { modeFor } from "./stack-spec.ts";

export interface AwsDriverOptions {
  /** State folder of the installation; stacks lie in `<home>/terraform`. Absolute. */
  readonly home: string;
  readonly program: TerraformProgram;
  readonly account: AwsAccountSettings;
  readonly states: TerraformStates;
  readonly seal: StateSeal;
  /** Where this program calls brokers. */
  readonly gateways: Gateways;
  readonly linkCredentials: LinkCredentials;
  readonly table?: ProcessTable;
  /** Time for an interrupted Terraform to end; ten minutes if absent. */
  readonly graceMs?: number;
  /** How long brokers of several may take to give away what they lead, and to leave. */
  readonly waits?: Waits;
}

/** An instance boots, fetches the broker and recovers its log within this. */
const READY_TIMEOUT_MS = 15 * 60_000;
const READY_POLL_MS = 5_000;
/** Exit code of a broker whose metadata, log and bucket do not belong together. */
const EXIT_DATA_MISMATCH = 65;
/** An id becomes a folder name and so must not be able to leave its parent. */
const CLUSTER_ID = /^[A-Za-z0-9_-]{1,64}$/;

export class AwsDriver implements ClusterDriver {
  readonly name = "aws";
  readonly capabilities: DriverCapabilities = {
    startsBrokers: false,
    exclusive: false,
    // An observation costs several requests, and the Auto Scaling group replaces a dead instance anyway.
    observeIntervalMs: 30_000,
    absentMessage: "No resources of the cluster exist in the AWS account: check its drift.",
  };
  readonly #options: AwsDriverOptions;
  readonly #account: AwsAccount;
  readonly #planner: OfflinePlanner;
  readonly #table: ProcessTable;
  /** Runs of one cluster never overlap within this program. */
  readonly #lock = new KeyedLock();
  #cliConfig: Promise<string> | undefined;

  /** Throws `ProvisionError` `unconfigured` if the account's settings are wrong. */
  constructor(options: AwsDriverOptions) {
    this.#options = options;
    this.#account = new AwsAccount(options.account);
    this.#table = options.table ?? systemProcessTable();
    this.#planner = new OfflinePlanner({
      program: options.program,
      providerVersion: options.account.providerVersion,
      account: { ...options.account, accountId: this.#account.accountId },
      table: this.#table,
    });
  }

  /** Known before anything exists: the names are the cluster's own. */
  async allocate(clusterId: string): Promise<Placement> {
    const { bootstrapHost } = this.#names(clusterId);
    return { host: bootstrapHost, kafkaPort: KAFKA_PORT_BOOTSTRAP };
  }

  /** Writes the stack, installs the providers and validates. */
  async prepare(deployment: ClusterDeployment, options: RunOptions = {}): Promise<void> {
    await this.#locked(deployment, options, "plan_failed", (run) => run.prepare("apply"));
  }

  async isPrepared(deployment: ClusterDeployment): Promise<boolean> {
    return await (await this.#runOf(deployment, {})).isPrepared();
  }

  /** The slots' Auto Scaling groups keep the brokers running. Throws if there are none. */
  async ensureRunning(deployment: ClusterDeployment): Promise<void> {
    const state = await this.#stateOf(deployment.clusterId);
    if (state?.resources.some((each) => each.type === "aws_autoscaling_group")) return;
    const message = `cluster ${deployment.clusterId} has no slots yet: apply a plan first`;
    throw new ProvisionError("not_prepared", message);
  }

  /**
   * Waits until every slot serves as the deployment says and is connected to a gateway; replaces instances of older
   * templates.
   */
  async waitReady(deployment: ClusterDeployment, options: WaitOptions = {}): Promise<void> {
    const timeoutMs = options.timeoutMs ?? READY_TIMEOUT_MS;
    let deadline = performance.now() + timeoutMs;
    for (;;) {
      if (options.signal?.aborted) {
        throw new ProvisionError("aborted", "waiting for the brokers was aborted");
      }
      const health = await this.#health(deployment);
      let { message } = health;
      if (await this.#replaceOutdated(deployment, health, options)) {
        deadline = performance.now() + timeoutMs;
      } else if (health.observation === "ready") {
        const absence = await this.#absence(deployment);
        if (absence === undefined) return;
        message = absence;
      }
      if (performance.now() >= deadline) {
        const detail = `${message} The slot's console output and the log group ${this.#names(deployment.clusterId).logGroup} tell more.`;
        const text = `the brokers were not ready within ${timeoutMs / 1000} s`;
        throw new ProvisionError("not_ready_in_time", text, { detail });
      }
      await sleep(READY_POLL_MS);
    }
  }

  async observe(deployment: ClusterDeployment, brokerId?: number): Promise<Observation> {
    const state = await this.#stateOf(deployment.clusterId);
    if (state === undefined || state.resources.length === 0) return "absent";
    const brokerIds = brokerId === undefined ? brokerIdsOf(deployment) : [brokerId];
    return (await this.#health(deployment, brokerIds)).observation;
  }

  /**
   * Only that the only slot waits for a recovery. Otherwise the slot's own supervisor restarts the broker, and
   * its log group has the reason.
   */
  async lastExit(clusterId: string): Promise<BrokerExit | undefined> {
    const deployment = await this.#lastDeployment(clusterId);
    if (deployment === undefined || deployment.brokers > 1) return undefined;
    const volume = await this.#recovering(deployment, "not_ready_in_time", (recovery) =>
      recovery.waitingVolume(),
    );
    if (volume === undefined) return undefined;
    const reason = `the slot's volume ${volume} has no usable metadata: recover the cluster`;
    return { code: EXIT_DATA_MISMATCH, reason };
  }

  async access(deployment: ClusterDeployment, brokerId?: number): Promise<BrokerAccess> {
    return await awsAccess(this.#options.gateways)(deployment, brokerId);
  }

  async stop(clusterId: string, options: WaitOptions = {}): Promise<void> {
    const deployment = await this.#lastDeployment(clusterId);
    if (deployment === undefined) return;
    const run: RunOptions = options.signal ? { signal: options.signal } : {};
    await this.#planAndApply(deployment, { ...run, purpose: "pause" });
  }

  async restart(): Promise<never> {
    throw new ProvisionError("unconfigured", "brokers on AWS cannot be restarted from here");
  }

  /** Everything, including data. Throws `ProvisionError` `not_prepared` if the spec is unknown. */
  async destroy(clusterId: string, options: RunOptions = {}): Promise<void> {
    if (await this.isDestroyed(clusterId)) return;
    const deployment = await this.#lastDeployment(clusterId);
    if (deployment === undefined) {
      const message = `the spec of cluster ${clusterId} is not known here: purge it with a plan`;
      throw new ProvisionError("not_prepared", message);
    }
    await this.#planAndApply(deployment, { ...options, purpose: "purge" });
  }

  async isDestroyed(clusterId: string): Promise<boolean> {
    const state = await this.#stateOf(clusterId);
    return state === undefined || state.resources.length === 0;
  }

  async list(): Promise<readonly string[]> {
    const folders = await readdir(this.#root(), { withFileTypes: true }).catch(() => []);
    const here = folders
      .filter((entry) => entry.isDirectory() && entry.name.startsWith("clu_"))
      .map((entry) => entry.name);
    const kept = await this.#options.states.clusterIds();
    return [...new Set([...here, ...kept])].sort();
  }

  /** Rewraps the stored state's key if the installation's key has changed. */
  async maintain({ clusterId }: ClusterDeployment): Promise<void> {
    const { states, seal } = this.#options;
    const stored = await states.load(clusterId);
    const wrapped = stored && (await seal.rewrapped(stored));
    if (wrapped) await states.rewrap(stored, wrapped);
  }

  async plan(deployment: ClusterDeployment, options: PlanOptions): Promise<ChangePlan> {
    if (options.offline) return await this.#planner.plan(deployment, options);
    if (options.purpose === "drift") return await this.drift(deployment, options);
    if (options.purpose === "recover") {
      return await this.#recovering(deployment, "plan_failed", (recovery) => recovery.plan());
    }
    return await this.#locked(deployment, options, "plan_failed", (run) =>
      run.plan(options.purpose),
    );
  }

  async apply(
    deployment: ClusterDeployment,
    planId: string,
    options: RunOptions = {},
  ): Promise<void> {
    if (isRecoveryPlanId(planId)) {
      const apply = (recovery: SlotRecovery) => recovery.apply(planId);
      return await this.#recovering(deployment, "apply_failed", apply);
    }
    await this.#locked(deployment, options, "apply_failed", async (run) => {
      const mode = modeFor(await run.apply(planId), deployment);
      if (mode === "running") await this.#issueCredentials(deployment);
      if (mode === "retained" || mode === "purge") {
        await this.#options.linkCredentials.revoke(deployment.clusterId as ClusterId);
      }
    });
  }

  async drift(deployment: ClusterDeployment, options: RunOptions = {}): Promise<ChangePlan> {
    return await this.#locked(deployment, options, "plan_failed", (run) => run.drift());
  }

  async sweep(deployment: ClusterDeployment, options: RunOptions = {}): Promise<SweepReport> {
    return await this.#locked(deployment, options, "apply_failed", (run) => run.sweep());
  }

  async runLoad(): Promise<never> {
    throw new ProvisionError("unconfigured", "brokers on AWS cannot be reached from here");
  }

  /** None was started. */
  async endLoad(): Promise<void> {}

  async #planAndApply(deployment: ClusterDeployment, options: PlanOptions): Promise<void> {
    const plan = await this.plan(deployment, options);
    if (!isEmptyPlan(plan)) await this.apply(deployment, plan.id, options);
  }

  async #locked<T>(
    deployment: ClusterDeployment,
    options: RunOptions,
    otherwise: ProvisionErrorCode,
    work: (run: StackRun) => Promise<T>,
  ): Promise<T> {
    return await this.#lock.run(deployment.clusterId, async () => {
      const run = await this.#runOf(deployment, options);
      return await askingAws(otherwise, () => work(run));
    });
  }

  async #recovering<T>(
    deployment: ClusterDeployment,
    otherwise: ProvisionErrorCode,
    work: (recovery: SlotRecovery) => Promise<T>,
  ): Promise<T> {
    if (deployment.brokers > 1) {
      const message = "several brokers have their metadata in a database: restore a backup of it";
      throw new ProvisionError("not_recoverable", message);
    }
    const clients = await this.#account.clients(deployment);
    const { clusterId } = deployment;
    const recovery = new SlotRecovery(clients, clusterId, this.#names(clusterId).bucket);
    return await askingAws(otherwise, () => work(recovery));
  }

  async #runOf(deployment: ClusterDeployment, options: RunOptions): Promise<StackRun> {
    const workspace = await this.#workspace(deployment);
    return new StackRun({
      ...{ workspace, deployment, account: this.#account, session: options },
      retire: (brokerIds) => this.#retire(deployment, brokerIds, options),
    });
  }

  async #workspace({ clusterId, organizationId }: ClusterDeployment): Promise<Workspace> {
    const { program, states, seal, graceMs } = this.#options;
    const folder = this.#folder(clusterId);
    return new Workspace({
      folder,
      program,
      cliConfig: await this.#ready(),
      table: this.#table,
      state: new StateCopy({ folder, organizationId, clusterId, states, seal }),
      now: Date.now,
      graceMs,
    });
  }

  /** The program is checked once; a failure is not cached, because an operator may fix it. */
  async #ready(): Promise<string> {
    this.#cliConfig ??= (async () => {
      const cliConfig = await writeCliConfig(this.#options.program, this.#root());
      await checkTerraform(this.#options.program, cliConfig);
      return cliConfig;
    })();
    try {
      return await this.#cliConfig;
    } catch (error) {
      this.#cliConfig = undefined;
      throw error;
    }
  }

  /** The newest state of file and database; changes nothing. */
  async #stateOf(clusterId: string): Promise<StateDocument | undefined> {
    const { states, seal } = this.#options;
    const folder = this.#folder(clusterId);
    const here = await new StateCopy({
      ...{ folder, clusterId, states, seal },
      organizationId: "",
    }).read();
    const stored = await states.load(clusterId);
    if (stored === undefined) return here;
    const same = here !== undefined && here.lineage === stored.lineage;
    if (same && here.serial >= stored.serial) return here;
    return parseState(Buffer.from(await seal.open(stored)));
  }

  async #health(deployment: ClusterDeployment, brokerIds = brokerIdsOf(deployment)) {
    const clients = await this.#account.clients(deployment);
    const { clusterId } = deployment;
    const { accountId } = this.#account;
    return await askingAws("not_ready_in_time", () =>
      clusterHealth(clients, { clusterId, accountId, brokerIds }),
    );
  }

  /** Whether an instance was terminated: the slot's next one uses the current template. */
  async #replaceOutdated(
    deployment: ClusterDeployment,
    health: ClusterHealth,
    { signal }: WaitOptions,
  ): Promise<boolean> {
    const clients = await this.#account.clients(deployment);
    const { autoScalingGroup } = this.#names(deployment.clusterId);
    const brokerIds = brokerIdsOf(deployment);
    const next = await askingAws("not_ready_in_time", async () =>
      nextToReplace(await outdatedInstances(clients, brokerIds, autoScalingGroup), health),
    );
    if (next === undefined) return false;
    if (brokerIds.length > 1 && health.observation === "ready") {
      return await (await this.#several(deployment)).replace(next, signal ? { signal } : {});
    }
    await askingAws("not_ready_in_time", () => replaceInstance(clients, next));
    return true;
  }

  /** Which broker the control plane or the others miss, in one sentence. */
  async #absence(deployment: ClusterDeployment): Promise<string | undefined> {
    for (const brokerId of brokerIdsOf(deployment)) {
      if (await this.#broker(deployment.clusterId, brokerId).ready()) continue;
      return `The broker of slot ${brokerId} takes connections, but is not connected to a gateway of the control plane.`;
    }
    if (deployment.brokers === 1) return undefined;
    const missing = await (await this.#several(deployment)).missing();
    return missing === undefined ? undefined : `Broker ${missing} has not joined the cluster.`;
  }

  #broker(clusterId: string, brokerId: number): BrokerHttp {
    const slot = { clusterId: clusterId as ClusterId, brokerId };
    return new BrokerHttp(linkedAdmin(this.#options.gateways, slot));
  }

  async #several(deployment: ClusterDeployment): Promise<SeveralSlots> {
    const { clusterId } = deployment;
    return new SeveralSlots({
      clients: await this.#account.clients(deployment),
      brokerIds: brokerIdsOf(deployment),
      admin: (brokerId) => this.#broker(clusterId, brokerId),
      groupOf: this.#names(clusterId).autoScalingGroup,
      waits: this.#options.waits,
    });
  }

  /** From the highest id down: what remains is always 1 to N. */
  async #retire(
    deployment: ClusterDeployment,
    brokerIds: readonly number[],
    options: RunOptions,
  ): Promise<void> {
    const several = await this.#several(deployment);
    for (const brokerId of brokerIds.toSorted((a, b) => b - a)) {
      await several.retire(brokerId, options);
      await this.#options.linkCredentials.revoke(deployment.clusterId as ClusterId, brokerId);
    }
  }

  async #issueCredentials(deployment: ClusterDeployment): Promise<void> {
    const { clusterId } = deployment;
    const { secrets } = await this.#account.clients(deployment);
    const slots = brokerIdsOf(deployment).map((brokerId) => ({
      clusterId: clusterId as ClusterId,
      brokerId,
    }));
    await issueCredentials(secrets, {
      credentials: this.#options.linkCredentials,
      slots,
      secretOf: this.#names(clusterId).linkSecret,
    });
  }

  async #lastDeployment(clusterId: string): Promise<ClusterDeployment | undefined> {
    const workspace = new Workspace({
      folder: this.#folder(clusterId),
      program: this.#options.program,
      cliConfig: "",
      table: this.#table,
      now: Date.now,
    });
    return await lastDeployment(workspace);
  }

  #names(clusterId: string): ClusterNames {
    return clusterNames(clusterId, this.#account.accountId);
  }

  #root(): string {
    return join(this.#options.home, "terraform");
  }

  #folder(clusterId: string): string {
    if (!CLUSTER_ID.test(clusterId)) throw new Error(`not a cluster id: ${clusterId}`);
    return join(this.#root(), clusterId);
  }
}
