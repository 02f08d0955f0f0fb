/**
 * What a change of a cluster on this machine consists of: its folder, its configuration file, its
 * process. Small, but true: it is read off the disk and the process table.
 */
import { createHash } from "node:crypto";
import { endpointsAt, TUNING_PROPERTIES } from "@millrace/domain";
import {
  type AttributeChange,
  type ChangePlan,
  changePlan,
  type PlannedChange,
  type PlanPurpose,
} from "../change-plan.ts";
import type { ClusterDeployment } from "../cluster-driver.ts";
import { type BrokerFiles, renderProperties } from "./broker-files.ts";

/** What is there of a cluster. */
export interface LocalState {
  readonly folder: boolean;
  /** Text of the configuration file. */
  readonly properties: string | undefined;
  readonly running: boolean;
}

/** These a broker takes while it runs; its file has them from its next start on. */
const LIVE_KEYS: ReadonlySet<string> = new Set(Object.values(TUNING_PROPERTIES));

/**
 * Names what a plan is for and what it makes of the cluster, so that it is recognised again without
 * being kept: the same target has the same id later, and another target another.
 */
export function localPlanId(
  files: BrokerFiles,
  deployment: ClusterDeployment,
  purpose: PlanPurpose,
): string {
  const target = JSON.stringify([purpose, deployment.paused, renderProperties(files, deployment)]);
  return `local-${purpose}-${createHash("sha256").update(target).digest("hex").slice(0, 16)}`;
}

/** The purpose that an id of `localPlanId` names. */
export function purposeOf(planId: string): PlanPurpose | undefined {
  const [, purpose] = /^local-(apply|pause|destroy|purge)-[0-9a-f]{16}$/.exec(planId) ?? [];
  return purpose as PlanPurpose | undefined;
}

export function planLocal(
  files: BrokerFiles,
  deployment: ClusterDeployment,
  purpose: PlanPurpose,
  state: LocalState,
): ChangePlan {
  const id = localPlanId(files, deployment, purpose);
  return changePlan(id, changesFor(files, deployment, purpose, state));
}

/** Whether the running broker has to restart to match the deployment. */
export function needsRestart(
  files: BrokerFiles,
  deployment: ClusterDeployment,
  { properties, running }: LocalState,
): boolean {
  const wanted = renderProperties(files, deployment);
  return running && propertyChanges(properties ?? "", wanted, LIVE_KEYS).length > 0;
}

function changesFor(
  files: BrokerFiles,
  deployment: ClusterDeployment,
  purpose: PlanPurpose,
  state: LocalState,
): PlannedChange[] {
  switch (purpose) {
    case "apply":
      return deployment.paused
        ? [...fileChanges(files, deployment, state), ...stopChange(state)]
        : [...fileChanges(files, deployment, state), ...startChange(files, deployment, state)];
    case "pause":
    case "destroy":
      return stopChange(state);
    case "purge":
      return [...stopChange(state), ...removal(files, state)];
    case "drift":
      return driftChanges(files, deployment, state);
    case "recover":
      throw new Error("a recovery is planned by the broker program");
  }
}

function fileChanges(
  files: BrokerFiles,
  deployment: ClusterDeployment,
  state: LocalState,
): PlannedChange[] {
  const wanted = renderProperties(files, deployment);
  const attributes = propertyChanges(state.properties ?? "", wanted);
  const changes: PlannedChange[] = [];
  if (!state.folder) changes.push(folderChange(files, "create"));
  if (state.properties === undefined || attributes.length > 0) {
    changes.push({
      address: "configuration",
      type: "file",
      action: state.properties === undefined ? "create" : "update",
      attributes,
    });
  }
  return changes;
}

function startChange(
  files: BrokerFiles,
  deployment: ClusterDeployment,
  state: LocalState,
): PlannedChange[] {
  const { host, adminPort } = deployment.placement;
  const listeners = [
    ...endpointsAt(deployment.placement, deployment).map(({ name, bootstrapServers }) => ({
      name: `${name.replace("-", "_")}_listener`,
      before: null,
      after: bootstrapServers,
    })),
    ...(adminPort === undefined
      ? []
      : [{ name: "admin_listener", before: null, after: `${host}:${adminPort}` }]),
  ];
  if (!state.running) return [processChange("create", listeners)];
  return needsRestart(files, deployment, state) ? [processChange("replace", [])] : [];
}

function stopChange(state: LocalState): PlannedChange[] {
  return state.running ? [processChange("delete", [])] : [];
}

function removal(files: BrokerFiles, state: LocalState): PlannedChange[] {
  return state.folder ? [folderChange(files, "delete")] : [];
}

/** Here `before` is what was applied and `after` what exists. */
function driftChanges(
  files: BrokerFiles,
  deployment: ClusterDeployment,
  state: LocalState,
): PlannedChange[] {
  if (!state.folder) return [folderChange(files, "delete")];
  const made = renderProperties(files, deployment);
  const changes: PlannedChange[] = [];
  const attributes = propertyChanges(made, state.properties ?? "", LIVE_KEYS);
  if (state.properties === undefined || attributes.length > 0) {
    const action = state.properties === undefined ? "delete" : "update";
    changes.push({ address: "configuration", type: "file", action, attributes });
  }
  if (!deployment.paused && !state.running) changes.push(processChange("delete", []));
  if (deployment.paused && state.running) changes.push(processChange("create", []));
  return changes;
}

function folderChange(files: BrokerFiles, action: "create" | "delete"): PlannedChange {
  const before = action === "delete" ? files.folder : null;
  const after = action === "create" ? files.folder : null;
  return {
    address: "folder",
    type: "folder",
    action,
    attributes: [{ name: "path", before, after }],
  };
}

function processChange(
  action: PlannedChange["action"],
  attributes: readonly AttributeChange[],
): PlannedChange {
  return { address: "process", type: "process", action, attributes };
}

function propertyChanges(
  before: string,
  after: string,
  without: ReadonlySet<string> = new Set(),
): AttributeChange[] {
  const [old, wanted] = [propertiesIn(before), propertiesIn(after)];
  return [...new Set([...old.keys(), ...wanted.keys()])]
    .filter((key) => !without.has(key) && old.get(key) !== wanted.get(key))
    .map((name) => ({ name, before: old.get(name) ?? null, after: wanted.get(name) ?? null }));
}

function propertiesIn(text: string): Map<string, string> {
  const pairs = text.split("\n").flatMap((line): [string, string][] => {
    const at = line.indexOf("=");
    return line.startsWith("#") || at < 0 ? [] : [[line.slice(0, at), line.slice(at + 1)]];
  });
  return new Map(pairs);
}
