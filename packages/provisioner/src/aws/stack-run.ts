/** A driver's work on one cluster's stack: plan, apply, detect drift, sweep. */
import { setTimeout as sleep } from "node:timers/promises";
import {
  type ClusterStackMode,
  type ClusterStackSpec,
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
  type RunOptions,
  type SweepReport,
  type SweptResource,
} from "../change-plan.ts";
import { type ClusterDeployment, ProvisionError } from "../cluster-driver.ts";
import {
  type Addition,
  additionsIn,
  takenBack,
  withoutAdditions,
  withTakenBack,
} from "../terraform/added-by-hand.ts";
import { deletedIds, driftedChanges, plannedChanges } from "../terraform/plan-json.ts";
import type { StateDocument } from "../terraform/state-copy.ts";
import { readIfThere } from "../terraform/terraform-program.ts";
import { isPlanId, newPlanId, type Workspace, type WorkspaceRun } from "../terraform/workspace.ts";
import type { AwsAccount, AwsClients } from "./aws-account.ts";
import { APPLIED_FILE, ASKED_FILE, deploymentIn } from "./deployment-files.ts";
import { emptyBucket } from "./empty-bucket.ts";
import { rejectConnections } from "./endpoint-connections.ts";
import { AwsInventory, resourcesOf } from "./inventory.ts";
import { checkKeys } from "./key-preflight.ts";
import { leavingSlots, logVolumeAddress } from "./leaving-slots.ts";
import { stackFindings, zoneFindings } from "./stack-findings.ts";
import { modeFor, stackAccount, stackSpec } from "./stack-spec.ts";
import { removeStrays } from "./strays.ts";
import { takeBack } from "./take-back.ts";

export interface StackRunOptions {
  readonly workspace: Workspace;
  readonly deployment: ClusterDeployment;
  readonly account: AwsAccount;
  readonly session: RunOptions;
  /** Has the brokers of these slots leave the cluster before the slots are removed. */
  readonly retire?: (brokerIds: readonly number[]) => Promise<void>;
  /** Wait before the second search for a volume that was not found and would be created; 5 s if absent. */
  readonly secondLookMs?: number;
  /** How long a purge waits for resources that cannot be deleted yet; ten minutes if absent. */
  readonly held?: HeldWait;
}

interface HeldWait {
  readonly msMax: number;
  /** Time until the next try. */
  readonly pauseMs: number;
}

/** Stored beside a plan. */
interface PlanRecord {
  readonly purpose: PlanPurpose;
  readonly digest: string;
  /** Findings that forbid it. */
  readonly refused: readonly string[];
  /** Whether Terraform has nothing to do. */
  readonly empty: boolean;
  /** Rules and policies added by hand that it removes; Terraform does not. */
  readonly additions?: readonly Addition[];
  /** Endpoint services that it deletes. */
  readonly closing: readonly string[];
  /** Slots that it removes. */
  readonly leaving?: readonly number[];
  readonly applied: boolean;
}

/** A new resource is not always found by its tags at once. */
const SECOND_LOOK_MS = 5_000;
/** Protected in every stack except a purge's. */
const HOLDS_DATA = new Set(["aws_ebs_volume", "aws_s3_bucket", "aws_kms_key", "aws_db_instance"]);
/** A purge that still finds something new after these rounds is not finding leftovers. */
const PURGE_ROUNDS_MAX = 3;
/** An endpoint takes AWS minutes to delete, and holds its subnet and group until it is gone. */
const HELD_WAIT: HeldWait = { msMax: 10 * 60_000, pauseMs: 10_000 };

interface Surveyed {
  readonly found: readonly ImportTarget[];
  readonly strays: readonly SweptResource[];
}

export class StackRun {
  readonly #workspace: Workspace;
  readonly #deployment: ClusterDeployment;
  readonly #account: AwsAccount;
  readonly #session: RunOptions;
  readonly #secondLookMs: number;
  readonly #held: HeldWait;
  readonly #options: StackRunOptions;

  constructor(options: StackRunOptions) {
    this.#options = options;
    this.#workspace = options.workspace;
    this.#deployment = options.deployment;
    this.#account = options.account;
    this.#session = options.session;
    this.#secondLookMs = options.secondLookMs ?? SECOND_LOOK_MS;
    this.#held = options.held ?? HELD_WAIT;
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
      if (purpose !== "purge") await this.#keepWhatHoldsData(run);
      if (modeFor(purpose, this.#deployment) === "running") await this.#checkKeys(run);
      const imports = await this.#importsFor(purpose, run);
      const { planId, json } = await this.#makePlan(purpose, run, imports);
      const additions = additionsIn(json);
      const leaving = purpose === "apply" ? leavingSlots(json) : [];
      const findings = this.#findings(withoutAdditions(json, additions), purpose, leaving);
      const planned = plannedChanges(json);
      const plan = changePlan(planId, withTakenBack(planned, additions), findings);
      const refused = findings
        .filter((finding) => finding.severity === "error")
        .map(({ rule, address, message }) => `${rule} ${address}: ${message}`);
      const record: PlanRecord = {
        ...{ purpose, digest: plan.digest, refused, applied: false },
        ...{ empty: planned.length === 0, additions },
        closing: deletedIds(json, "aws_vpc_endpoint_service"),
        leaving,
      };
      await this.#workspace.writeJson(recordFile(planId), record);
      await this.#workspace.dropPlans(planId);
      return plan;
    });
  }

  /** Applies the plan once, and returns what it was for. */
  async apply(planId: string): Promise<PlanPurpose> {
    if (!isPlanId(planId)) throw stale(planId);
    const record = (await this.#workspace.readJson(recordFile(planId))) as PlanRecord | undefined;
    if (record === undefined) throw stale(planId);
    const isPurge = record.purpose === "purge";
    if (record.applied) {
      if (isPurge) await this.#workspace.remove();
      return record.purpose;
    }
    if (record.refused.length > 0) {
      const detail = record.refused.join("\n");
      throw new ProvisionError("policy_refused", "a policy rule forbids this plan", { detail });
    }
    await this.#workspace.session(this.#session, async (run) => {
      if (isPurge) await this.#session.onDestroying?.();
      const { leaving = [] } = record;
      if (leaving.length > 0) await this.#options.retire?.(leaving);
      await this.#letGo(run, record.closing);
      await this.#takeBack(run, record.additions ?? []);
      // Only once: a later, failed apply may have created an equal rule that belongs to the stack.
      await this.#workspace.writeJson(recordFile(planId), { ...record, additions: [] });
      if (isPurge) await this.#purge(run, record.empty ? undefined : planId);
      else if (!record.empty) await run.apply(planId);
    });
    await this.#workspace.writeJson(APPLIED_FILE, this.#deployment);
    await this.#workspace.writeJson(recordFile(planId), { ...record, applied: true });
    if (isPurge) await this.#workspace.remove();
    return record.purpose;
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

  /**
   * Imports everything of the whole stack that exists; the next plan removes what is unwanted. Strays are
   * removed unless they hold data.
   */
  async sweep(): Promise<SweepReport> {
    const { report, isBare } = await this.#workspace.session(this.#session, async (run) => {
      const { found, strays } = await this.#survey(run.state);
      const imported = await this.#importNow(run, found);
      const { removed, left } = await this.#removeStrays(strays, false);
      const recorded = run.state?.resources.length ?? 0;
      return { report: { imported, removed, left }, isBare: recorded + left.length === 0 };
    });
    // The search has created the folder, perhaps of a cluster that is gone.
    if (isBare && !(await this.#workspace.hasPlans())) await this.#workspace.remove();
    return report;
  }

  /**
   * Throws `ProvisionError` `config` if the requested change would lose a volume or a bucket. Terraform would not
   * refuse all of these: it does not protect what is no longer in a stack.
   */
  async #checkChange(purpose: PlanPurpose): Promise<void> {
    const last = await deploymentIn(this.#workspace, APPLIED_FILE);
    const changes = purpose === "apply" || purpose === "pause";
    if (last !== undefined && changes) {
      const refused = forbiddenChanges(this.#spec("running", last), this.#spec("running"));
      if (refused.length > 0) {
        const detail = refused.map((error) => `${error.pointer} ${error.message}`).join("\n");
        const message = "this change would lose the cluster's volume or bucket";
        throw new ProvisionError("config", message, { detail });
      }
    }
    await this.#workspace.writeJson(ASKED_FILE, this.#deployment);
  }

  /** Throws `ProvisionError` `config` if a key that Millrace did not create cannot be used as the stack needs it. */
  async #checkKeys(run: WorkspaceRun): Promise<void> {
    const { clusterId, region, aws } = this.#deployment;
    const { accountId } = this.#account;
    await checkKeys(await this.#clients(), {
      ...{ accountId, region, logGroup: clusterNames(clusterId, accountId).logGroup },
      storageKeyArn: aws?.storage.kmsKeyArn,
      warn: (message) => run.events.say(message, "warning"),
    });
  }

  /**
   * A volume, bucket or key whose creation was interrupted is tainted in the state. Terraform would replace it,
   * which its protection always refuses. It is untainted, so that the plan changes it in place.
   */
  async #keepWhatHoldsData(run: WorkspaceRun): Promise<void> {
    for (const { address, type, isTainted } of run.state?.resources ?? []) {
      if (!isTainted || !HOLDS_DATA.has(type)) continue;
      await run.untaint(address);
      run.events.say(`${address} is kept, although its creation was interrupted`, "warning");
    }
  }

  /**
   * Resources that a plan for `purpose` must import. If the stack still has them, the plan imports them, so that
   * the import is visible; if they are to be deleted, they are imported now.
   */
  async #importsFor(purpose: PlanPurpose, run: WorkspaceRun): Promise<readonly ImportTarget[]> {
    const { found } = await this.#survey(run.state);
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
      // It may have been deleted since it was found.
      if (!(error instanceof ProvisionError) || imports.length === 0) throw error;
      if (!/non-existent remote object/i.test(error.detail ?? "")) throw error;
      const there = await this.#importNow(run, imports);
      run.events.say(`${imports.length - there.length} of them are gone by now`);
      await run.prepare(STACK_FILE, this.#stack(purpose));
      return { planId, json: await run.plan({ planId, destroy }) };
    }
  }

  /** Checks parts that the emulator lacks as they would be applied on AWS. */
  #findings(
    json: unknown,
    purpose: PlanPurpose,
    leaving: readonly number[],
  ): readonly PolicyFinding[] {
    const spec = this.#spec(modeFor(purpose, this.#deployment));
    const { without = [], ...run } = this.#account.synthRun(this.#deployment);
    const whole = synthesizeCluster(spec, run);
    const purge = purpose === "purge";
    const lacking = new Set(without.map((each) => each.split(".")[0]));
    const isLacking = (type: string | undefined) => type !== undefined && lacking.has(type);
    return [
      ...stackFindings(json, whole, {
        ...{ kind: "cluster", purge, ignoredInPlan: isLacking },
        leaving: leaving.map(logVolumeAddress),
      }),
      ...zoneFindings(spec),
    ];
  }

  /** Existing resources of the running stack, whatever is requested now, that are missing from the state. */
  async #survey(state: StateDocument | undefined): Promise<Surveyed> {
    const recorded = (state?.resources ?? []).map(({ address, attributes }) => ({
      address,
      id: importIdOf(attributes),
    }));
    const whole = resourcesOf(this.#wholeStack());
    const inventory = new AwsInventory(await this.#clients(), this.#deployment.clusterId);
    let survey = await inventory.survey(whole, recorded);
    const known = new Set(recorded.map(({ address }) => address));
    const lacksVolume = whole.some(
      ({ type, address }) =>
        type === "aws_ebs_volume" && !known.has(address) && !survey.located.has(address),
    );
    // A duplicate volume would stay for ever, so a wait is worth it if something was created before.
    if (lacksVolume && recorded.length + survey.located.size > 0) {
      const { signal } = this.#session;
      await sleep(this.#secondLookMs, undefined, signal ? { signal } : {}).catch(() => {});
      survey = await inventory.survey(whole, recorded);
    }
    // By type and id: a role and its instance profile share one name, which is the id of both.
    const taken = new Set(recorded.map(({ address, id }) => `${typeOf(address)} ${id}`));
    const unrecorded = [...survey.located].filter(
      ([address, id]) => !taken.has(`${typeOf(address)} ${id}`),
    );
    return { found: unrecorded.map(([to, id]) => ({ to, id })), strays: survey.strays };
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
   * Deletes everything else before the bucket, including brokers and its policy. Then nothing writes to the
   * bucket any more and its objects can be deleted. Resources missing from the state are deleted too.
   */
  async #purge(run: WorkspaceRun, planId: string | undefined): Promise<void> {
    if (planId !== undefined) await this.#destroyAll(run, await this.#unprotected(run, planId));
    let heldSince: number | undefined;
    for (let rounds = 0; rounds < PURGE_ROUNDS_MAX; ) {
      const { found, strays } = await this.#survey(run.state);
      const imported = await this.#importNow(run, found);
      if (imported.length > 0) {
        await this.#destroyAll(run, await this.#unprotected(run, await this.#planPurge(run)));
      }
      const { left } = await this.#removeStrays(strays, true);
      if (imported.length === 0 && left.length === 0) return;
      if (imported.length > 0) rounds += 1;
      if (left.length === 0) continue;
      heldSince ??= performance.now();
      if (performance.now() - heldSince >= this.#held.msMax) break;
      await this.#pause();
    }
    throw new ProvisionError(
      "apply_failed",
      "resources of the cluster cannot be deleted, or come back",
    );
  }

  async #removeStrays(strays: readonly SweptResource[], data: boolean) {
    const { signal } = this.#session;
    return await removeStrays(await this.#clients(), strays, { data, signal });
  }

  async #pause(): Promise<void> {
    const { signal } = this.#session;
    try {
      await sleep(this.#held.pauseMs, undefined, signal ? { signal } : {});
    } catch (cause) {
      throw new ProvisionError("aborted", "waiting for what is held was aborted", { cause });
    }
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

  /**
   * AWS itself refuses to delete a database that is protected, which a plan that only destroys does not change. Returns the
   * plan to apply then: the change makes the one of before stale.
   */
  async #unprotected(run: WorkspaceRun, planId: string): Promise<string> {
    const guarded = (run.state?.resources ?? []).find(
      ({ type, attributes }) => type === "aws_db_instance" && attributes.deletion_protection,
    );
    if (guarded === undefined) return planId;
    await run.prepare(STACK_FILE, this.#stack("purge"));
    const release = newPlanId("release");
    await run.plan({ planId: release, target: guarded.address });
    await run.apply(release);
    return await this.#planPurge(run);
  }

  async #planPurge(run: WorkspaceRun): Promise<string> {
    const planId = newPlanId("purge");
    await run.prepare(STACK_FILE, this.#stack("purge"));
    const json = await run.plan({ planId, destroy: true });
    await this.#letGo(run, deletedIds(json, "aws_vpc_endpoint_service"));
    return planId;
  }

  /** An endpoint service cannot be deleted while it has connections. */
  async #letGo(run: WorkspaceRun, serviceIds: readonly string[]): Promise<void> {
    if (serviceIds.length === 0) return;
    const { ec2 } = await this.#clients();
    const rejected = await rejectConnections(ec2, serviceIds);
    if (rejected > 0) run.events.say(`${rejected} PrivateLink connections were ended`, "warning");
  }

  /** Before Terraform, whose run may take long or fail: a rule that opens the cluster would stay until then. */
  async #takeBack(run: WorkspaceRun, additions: readonly Addition[]): Promise<void> {
    if (additions.length === 0) return;
    await takeBack(await this.#clients(), additions, this.#session.signal);
    for (const { address, attributes } of takenBack(additions)) {
      const what = attributes.map(({ name, before }) => `${name} ${before}`).join("; ");
      run.events.say(`taken back from ${address}: ${what}`, "warning");
    }
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
    return stackSpec(deployment, mode, stackAccount(this.#account, deployment));
  }
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

function typeOf(address: string): string {
  return address.split(".")[0] ?? "";
}
