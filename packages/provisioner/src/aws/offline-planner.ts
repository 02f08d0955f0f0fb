/**
 * Plans a cluster without an account, credentials or existing resources: the answer of `validate_only` for a
 * new cluster. It works in a temporary folder.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { STACK_FILE, synthesizeCluster } from "@millrace/infra";
import { type ChangePlan, changePlan, type PlanOptions } from "../change-plan.ts";
import { type ClusterDeployment, ProvisionError } from "../cluster-driver.ts";
import type { ClusterPlanner } from "../cluster-drivers.ts";
import { type ProcessTable, systemProcessTable } from "../local/process-table.ts";
import { plannedChanges } from "../terraform/plan-json.ts";
import {
  checkTerraform,
  type TerraformProgram,
  writeCliConfig,
} from "../terraform/terraform-program.ts";
import { newPlanId, Workspace } from "../terraform/workspace.ts";
import { stackFindings, zoneFindings } from "./stack-findings.ts";
import { modeFor, type StackAccount, stackSpec } from "./stack-spec.ts";

export interface OfflinePlannerOptions {
  readonly program: TerraformProgram;
  readonly providerVersion?: string | undefined;
  /** The account's settings, if there is one: the plan then shows its names. */
  readonly account?: StackAccount | undefined;
  readonly table?: ProcessTable;
  /** Parent of the temporary folders; the system's if absent. */
  readonly temporaryFolder?: string;
}

/** Longer than a plan of the largest stack takes on a busy machine. */
const TIMEOUT_MS = 60_000;
/** Each plan is a Terraform and a provider of some 300 MiB. */
const AT_ONCE_MAX = 2;
/** Requests beyond this are rejected: they would wait longer than a caller's time-out. */
const WAITING_MAX = 16;
/** Terraform ends at once if it has made no requests. */
const GRACE_MS = 10_000;

/** Nothing that is only planned connects to a database. */
const NO_AUTHORITY = "-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n";

/** Placeholders for values that only an account can provide. */
function noAccount({ region, aws }: ClusterDeployment): StackAccount {
  return {
    accountId: "000000000000",
    roleArn: "arn:aws:iam::000000000000:role/millrace/provisioner",
    artefact: { bucket: "millrace-artefacts", key: "millrace", sha256: "0".repeat(64) },
    amiId: "ami-00000000000000000",
    permissionsBoundaryArn: "arn:aws:iam::000000000000:policy/millrace-boundary",
    controlLink: {
      name: `com.amazonaws.vpce.${region}.vpce-svc-00000000000000000`,
      domain: "link.millrace.internal",
      zones: aws?.zones ?? [],
    },
  };
}

/** What an offline plan is made of. */
export interface OfflinePlan {
  readonly plan: ChangePlan;
  /** What Terraform printed of it: `terraform show -json`. */
  readonly json: unknown;
}

export class OfflinePlanner implements ClusterPlanner {
  readonly #options: OfflinePlannerOptions;
  readonly #waiting: (() => void)[] = [];
  #running = 0;
  /** A failure is not kept, since an operator may fix it. */
  #isChecked = false;

  constructor(options: OfflinePlannerOptions) {
    this.#options = options;
  }

  async plan(deployment: ClusterDeployment, options: PlanOptions): Promise<ChangePlan> {
    return (await this.planWithJson(deployment, options)).plan;
  }

  /** The plan with what it was read from. Throws `ProvisionError` `busy` where too many are asked for. */
  async planWithJson(deployment: ClusterDeployment, options: PlanOptions): Promise<OfflinePlan> {
    if (!options.offline) {
      const message = `there is no account for ${deployment.region}: only an offline plan can be made`;
      throw new ProvisionError("unconfigured", message);
    }
    await this.#enter();
    try {
      return await this.#make(deployment, options);
    } finally {
      this.#leave();
    }
  }

  async #make(deployment: ClusterDeployment, options: PlanOptions): Promise<OfflinePlan> {
    const { program, providerVersion, account, temporaryFolder } = this.#options;
    const parent = await mkdtemp(join(temporaryFolder ?? tmpdir(), "millrace-plan-"));
    try {
      const mode = modeFor(options.purpose, deployment);
      const spec = stackSpec(deployment, mode, {
        ...(account ?? noAccount(deployment)),
        databaseAuthority: NO_AUTHORITY,
      });
      const stack = synthesizeCluster(spec, { providerVersion, offline: true });
      const limit = AbortSignal.timeout(TIMEOUT_MS);
      const cliConfig = await writeCliConfig(program, parent);
      if (!this.#isChecked) await checkTerraform(program, cliConfig);
      this.#isChecked = true;
      const workspace = new Workspace({
        folder: join(parent, "stack"),
        program: { ...program, credentials: {} },
        cliConfig,
        table: this.#options.table ?? systemProcessTable(),
        now: Date.now,
        graceMs: GRACE_MS,
      });
      const session = {
        ...(options.onEvent ? { onEvent: options.onEvent } : {}),
        signal: options.signal ? AbortSignal.any([options.signal, limit]) : limit,
      };
      return await workspace.session(session, async (run) => {
        await run.prepare(STACK_FILE, stack);
        const planId = newPlanId(options.purpose);
        const json = await run.plan({ planId, offline: true });
        const purge = options.purpose === "purge";
        const findings = [
          ...stackFindings(json, stack, { kind: "cluster", purge }),
          ...zoneFindings(spec),
        ];
        return { plan: changePlan(planId, plannedChanges(json), findings), json };
      });
    } finally {
      await rm(parent, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
    }
  }

  async #enter(): Promise<void> {
    if (this.#running < AT_ONCE_MAX) {
      this.#running += 1;
      return;
    }
    if (this.#waiting.length >= WAITING_MAX) {
      throw new ProvisionError("busy", "too many plans are in progress; try again in a minute");
    }
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  /** Passes the slot to the caller that has waited longest. */
  #leave(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#running -= 1;
  }
}
