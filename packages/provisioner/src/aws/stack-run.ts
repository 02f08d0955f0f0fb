/** What a driver does with one cluster's stack: plan, apply, tell drift, sweep. */
import {
  type ClusterStackMode,
  type ClusterStackSpec,
  checkPolicies,
  clusterNames,
  forbiddenChanges,
  type ImportTarget,
  STACK_FILE,
  synthesizeCluster,
} from "@millrace/infra";
import {
  type ChangePlan,
  changePlan,
  type PlanPurpose,
  type PolicyFinding,
  type SweepReport,
  type SweptResource,
} from "../change-plan.ts";
import { type ClusterDeployment, ProvisionError } from "../cluster-driver.ts";
import { driftedChanges, plannedChanges } from "../terraform/plan-json.ts";
import type { StateDocument } from "../terraform/state-copy.ts";
import { readIfThere } from "../terraform/terraform-program.ts";
import {
  isPlanId,
  newPlanId,
  type SessionOptions,
  type Workspace,
  type WorkspaceRun,
} from "../terraform/workspace.ts";
import type { AwsAccount, AwsClients } from "./aws-account.ts";
import { emptyBucket } from "./empty-bucket.ts";
import { AwsInventory, resourcesOf } from "./inventory.ts";
import { modeFor, stackSpec } from "./stack-spec.ts";

export interface StackRunOptions {
  readonly workspace: Workspace;
  readonly deployment: ClusterDeployment;
  readonly account: AwsAccount;
  readonly session: SessionOptions;
}

/** What is kept beside a plan. */
interface PlanRecord {
  readonly purpose: PlanPurpose;
  readonly digest: string;
  /** Findings that forbid it. */
  readonly refused: readonly string[];
  readonly empty: boolean;
  readonly applied: boolean;
}

const DEPLOYMENT_FILE = "deployment.json";
/** A purge that finds something new each time is not finding leftovers. */
const PURGE_ROUNDS_MAX = 3;

export class StackRun {
  readonly #workspace: Workspace;
  readonly #deployment: ClusterDeployment;
  readonly #account: AwsAccount;
  readonly #session: SessionOptions;

  constructor(options: StackRunOptions) {
    this.#workspace = options.workspace;
    this.#deployment = options.deployment;
    this.#account = options.account;
    this.#session = options.session;
  }

  /** Writes the stack for `purpose`, brings the providers and validates. */
  async prepare(purpose: PlanPurpose): Promise<void> {
    await this.#workspace.session(this.#session, async (run) => {
      await run.prepare(STACK_FILE, this.#stack(purpose));
      await run.validate();
    });
  }

  async isPrepared(): Promise<boolean> {
    const text = await readIfThere(`${this.#workspace.folder}/${STACK_FILE}`);
    const lock = await readIfThere(`${this.#workspace.folder}/.terraform.lock.hcl`);
    return lock !== undefined && text?.toString("utf8") === this.#stack("apply");
  }

  async plan(purpose: PlanPurpose): Promise<ChangePlan> {
    await this.#checkChange(purpose);
    return await this.#workspace.session(this.#session, async (run) => {
      const imports = await this.#importsFor(purpose, run);
      const { planId, json } = await this.#makePlan(purpose, run, imports);
      const findings = this.#findings(json, purpose);
      const plan = changePlan(planId, plannedChanges(json), findings);
      const refused = findings
        .filter((finding) => finding.severity === "error")
        .map(({ rule, address, message }) => `${rule} ${address}: ${message}`);
      const empty = plan.changes.length === 0;
      const record: PlanRecord = { purpose, digest: plan.digest, refused, empty, applied: false };
      await this.#workspace.writeJson(recordFile(planId), record);
      await this.#workspace.dropPlans(planId);
      return plan;
    });
  }

  async apply(planId: string): Promise<void> {
    if (!isPlanId(planId)) throw stale(planId);
    const record = (await this.#workspace.readJson(recordFile(planId))) as PlanRecord | undefined;
    if (record === undefined) throw stale(planId);
    if (record.applied) return;
    if (record.refused.length > 0) {
      const detail = record.refused.join("\n");
      throw new ProvisionError("policy_refused", "a policy rule forbids this plan", { detail });
    }
    await this.#workspace.session(this.#session, async (run) => {
      if (record.purpose === "purge") await this.#purge(run, record.empty ? undefined : planId);
      else if (!record.empty) await run.apply(planId);
    });
    await this.#workspace.writeJson(recordFile(planId), { ...record, applied: true });
    if (record.purpose === "purge") await this.#workspace.remove();
  }

  async drift(): Promise<ChangePlan> {
    return await this.#workspace.session(this.#session, async (run) => {
      const planId = newPlanId("drift");
      if (run.state === undefined || run.state.resources.length === 0)
        return changePlan(planId, []);
      await run.prepare(STACK_FILE, this.#stack("apply"));
      const json = await run.plan({ planId, refreshOnly: true });
      await this.#workspace.dropPlansOf("drift");
      return changePlan(planId, driftedChanges(json));
    });
  }

  /** Takes on record whatever exists of the whole stack; the next plan removes what is unwanted. */
  async sweep(): Promise<SweepReport> {
    return await this.#workspace.session(this.#session, async (run) => {
      const found = await this.#unrecorded(run.state);
      const imported = await this.#importNow(run, found);
      return { imported, removed: [], left: [] };
    });
  }

  /**
   * Throws `ProvisionError` `config` where the cluster cannot become what is asked for without losing
   * a volume or a bucket. Terraform would not refuse all of it: what is no longer in a stack is not
   * protected by it.
   */
  async #checkChange(purpose: PlanPurpose): Promise<void> {
    const last = await lastDeployment(this.#workspace);
    const changes = purpose === "apply" || purpose === "pause";
    if (last !== undefined && changes) {
      const refused = forbiddenChanges(this.#spec("running", last), this.#spec("running"));
      if (refused.length > 0) {
        const detail = refused.map((error) => `${error.pointer} ${error.message}`).join("\n");
        const message = "the cluster cannot be changed so where it stands";
        throw new ProvisionError("config", message, { detail });
      }
    }
    await this.#workspace.writeJson(DEPLOYMENT_FILE, this.#deployment);
  }

  /**
   * What a plan for `purpose` has to take on record first. Where the stack still wants it, the plan
   * itself does, so that it is seen; where things are to go, they are recorded now, to be removed.
   */
  async #importsFor(purpose: PlanPurpose, run: WorkspaceRun): Promise<readonly ImportTarget[]> {
    const found = await this.#unrecorded(run.state);
    if (found.length === 0) return [];
    run.events.say(`found ${found.length} resources that are not on record`, "warning");
    if (purpose === "apply" || purpose === "pause") return found;
    await this.#importNow(run, found);
    return [];
  }

  async #makePlan(purpose: PlanPurpose, run: WorkspaceRun, imports: readonly ImportTarget[]) {
    const planId = newPlanId(purpose);
    const destroy = purpose === "purge";
    await run.prepare(STACK_FILE, this.#stack(purpose, imports));
    try {
      return { planId, json: await run.plan({ planId, destroy }) };
    } catch (error) {
      // What was found a moment ago may be on its way out.
      if (!(error instanceof ProvisionError) || imports.length === 0) throw error;
      if (!/non-existent remote object/i.test(error.detail ?? "")) throw error;
      const there = await this.#importNow(run, imports);
      run.events.say(`${imports.length - there.length} of them are gone by now`);
      await run.prepare(STACK_FILE, this.#stack(purpose));
      return { planId, json: await run.plan({ planId, destroy }) };
    }
  }

  /** What an emulator lacks is judged as it would be applied elsewhere. */
  #findings(json: unknown, purpose: PlanPurpose): readonly PolicyFinding[] {
    const context = { kind: "cluster", purge: purpose === "purge" } as const;
    const found = checkPolicies(json, context);
    const { without = [] } = this.#account.settings;
    if (without.length === 0) return found;
    const lacking = new Set(without.map((each) => each.split(".")[0]));
    const isLacking = ({ address }: PolicyFinding) => lacking.has(address.split(".")[0]);
    const spec = this.#spec(modeFor(purpose, this.#deployment));
    const { without: _, ...run } = this.#account.synthRun(this.#deployment);
    const whole = checkPolicies(synthesizeCluster(spec, run), context);
    return [...found.filter((each) => !isLacking(each)), ...whole.filter(isLacking)];
  }

  /** What exists of the running stack, whatever is wanted now, and is not on record. */
  async #unrecorded(state: StateDocument | undefined): Promise<ImportTarget[]> {
    const known = new Map(
      (state?.resources ?? []).map((each) => [each.address, importIdOf(each.attributes)]),
    );
    const whole = resourcesOf(this.#wholeStack());
    const missing = whole.filter((each) => !known.has(each.address));
    const inventory = new AwsInventory(await this.#clients(), this.#deployment.clusterId);
    const located = await inventory.locate(missing, known);
    const taken = new Set(known.values());
    return [...located].filter(([, id]) => !taken.has(id)).map(([to, id]) => ({ to, id }));
  }

  async #importNow(run: WorkspaceRun, found: readonly ImportTarget[]): Promise<SweptResource[]> {
    if (found.length === 0) return [];
    await run.prepare(STACK_FILE, this.#wholeStack());
    const imported: SweptResource[] = [];
    for (const { to, id } of found) {
      if (!(await run.import(to, id))) continue;
      run.events.say(`${to} is on record again (${id})`);
      imported.push({ id, address: to });
    }
    return imported;
  }

  /**
   * Everything else goes before the bucket, brokers and its policy among it; then nobody writes to it
   * any more, and its objects can go. What a killed run made beside the record goes too.
   */
  async #purge(run: WorkspaceRun, planId: string | undefined): Promise<void> {
    if (planId !== undefined) await this.#destroyAll(run, planId);
    for (let round = 0; round < PURGE_ROUNDS_MAX; round += 1) {
      const found = await this.#unrecorded(run.state);
      if (found.length === 0) return;
      if ((await this.#importNow(run, found)).length === 0) return;
      await this.#destroyAll(run, await this.#planPurge(run));
    }
    throw new ProvisionError("apply_failed", "something of the cluster comes back after its purge");
  }

  async #destroyAll(run: WorkspaceRun, planId: string): Promise<void> {
    try {
      await run.apply(planId);
    } catch (error) {
      if (!(error instanceof ProvisionError) || !error.detail?.includes("BucketNotEmpty")) {
        throw error;
      }
      const { bucket } = clusterNames(this.#deployment.clusterId, this.#account.accountId);
      const { s3 } = await this.#clients();
      const deleted = await emptyBucket(s3, bucket, this.#session.signal);
      run.events.say(`deleted ${deleted} objects of bucket ${bucket}`);
      await run.apply(await this.#planPurge(run));
    }
  }

  async #planPurge(run: WorkspaceRun): Promise<string> {
    const planId = newPlanId("purge");
    await run.prepare(STACK_FILE, this.#stack("purge"));
    await run.plan({ planId, destroy: true });
    return planId;
  }

  async #clients(): Promise<AwsClients> {
    return await this.#account.clients(this.#deployment);
  }

  #wholeStack(): string {
    return this.#synthesized("running", []);
  }

  #stack(purpose: PlanPurpose, imports: readonly ImportTarget[] = []): string {
    return this.#synthesized(modeFor(purpose, this.#deployment), imports);
  }

  #synthesized(mode: ClusterStackMode, imports: readonly ImportTarget[]): string {
    const run = this.#account.synthRun(this.#deployment);
    return synthesizeCluster(this.#spec(mode), imports.length === 0 ? run : { ...run, imports });
  }

  #spec(mode: ClusterStackMode, deployment = this.#deployment): ClusterStackSpec {
    const { settings, accountId } = this.#account;
    return stackSpec(deployment, mode, { ...settings, accountId });
  }
}

/** What the cluster was last asked to be; undefined where nothing was, or the folder is lost. */
export async function lastDeployment(workspace: Workspace): Promise<ClusterDeployment | undefined> {
  // Written by us in a folder that is ours alone.
  return (await workspace.readJson(DEPLOYMENT_FILE)) as ClusterDeployment | undefined;
}

function importIdOf(attributes: Readonly<Record<string, unknown>>): string {
  return String(attributes.id ?? "");
}

function recordFile(planId: string): string {
  return `plans/${planId}.json`;
}

function stale(planId: string): ProvisionError {
  return new ProvisionError("plan_stale", `plan ${planId} is not kept here any more: plan again`);
}
