/**
 * What a change of a cluster on this machine consists of: folders, configuration files and processes of its
 * brokers. Small, but true: it is read off the disk and the process table.
 */
import { createHash } from "node:crypto";
import { endpointsAt, placementOf, TUNING_PROPERTIES } from "@millrace/domain";
import {
  type AttributeChange,
  type ChangePlan,
  changePlan,
  type PlannedChange,
  type PlanPurpose,
} from "../change-plan.ts";
import type { ClusterDeployment } from "../cluster-driver.ts";
import type { BrokerFiles } from "./broker-files.ts";
import { renderProperties } from "./broker-properties.ts";

/** What is there of a broker. */
export interface LocalState {
  readonly folder: boolean;
  /** Text of the configuration file. */
  readonly properties: string | undefined;
  readonly running: boolean;
}

/** One broker: how it is to be, and what is there of it. */
export interface PlannedBroker {
  readonly files: BrokerFiles;
  readonly deployment: ClusterDeployment;
  readonly state: LocalState;
}

/** What several brokers share. */
export interface SharedState {
  readonly path: string;
  readonly folder: boolean;
  readonly database: boolean;
}

/** A cluster: how it is to be, and what is there of it. */
export interface LocalTarget {
  readonly paused: boolean;
  /** One for each wanted broker. */
  readonly brokers: readonly PlannedBroker[];
  /** Brokers that are there and not wanted any more. */
  readonly surplus: readonly PlannedBroker[];
  /** Undefined for a cluster of one broker. */
  readonly shared: SharedState | undefined;
}

/** These a broker takes while it runs; its file has them from its next start on. */
const LIVE_KEYS: ReadonlySet<string> = new Set(Object.values(TUNING_PROPERTIES));

/**
 * Names what a plan is for and what it makes of the cluster, so that it is recognised again without
 * being kept: the same target has the same id later, and another target another.
 */
export function localPlanId(target: LocalTarget, purpose: PlanPurpose): string {
  const properties = target.brokers.map((each) => renderProperties(each.files, each.deployment));
  const text = JSON.stringify([purpose, target.paused, properties.join("\n")]);
  return `local-${purpose}-${createHash("sha256").update(text).digest("hex").slice(0, 16)}`;
}

/** The purpose that an id of `localPlanId` names. */
export function purposeOf(planId: string): PlanPurpose | undefined {
  const [, purpose] = /^local-(apply|pause|destroy|purge)-[0-9a-f]{16}$/.exec(planId) ?? [];
  return purpose as PlanPurpose | undefined;
}

export function planLocal(target: LocalTarget, purpose: PlanPurpose): ChangePlan {
  return changePlan(localPlanId(target, purpose), changesFor(target, purpose));
}

/** Whether the running broker has to restart to match the deployment. */
export function needsRestart({ files, deployment, state }: PlannedBroker): boolean {
  const { properties, running } = state;
  const wanted = renderProperties(files, deployment);
  return running && propertyChanges(properties ?? "", wanted, LIVE_KEYS).length > 0;
}

function changesFor(target: LocalTarget, purpose: PlanPurpose): PlannedChange[] {
  const { brokers, surplus, shared } = target;
  const all = [...brokers, ...surplus];
  switch (purpose) {
    case "apply":
      return target.paused
        ? [...sharedChanges(shared), ...brokers.flatMap(fileChanges), ...all.flatMap(stopChange)]
        : [
            ...sharedChanges(shared),
            ...brokers.flatMap((each) => [...fileChanges(each), ...startChange(each)]),
            ...surplus.flatMap((each) => [...stopChange(each), ...removal(each)]),
          ];
    case "pause":
    case "destroy":
      return all.flatMap(stopChange);
    case "purge":
      return [
        ...all.flatMap((each) => [...stopChange(each), ...removal(each)]),
        ...sharedRemoval(shared),
      ];
    case "drift":
      return brokers.flatMap((each) => driftChanges(each, target.paused));
    case "recover":
      throw new Error("a recovery is planned by the broker program");
  }
}

function sharedChanges(shared: SharedState | undefined): PlannedChange[] {
  if (shared === undefined) return [];
  return [
    ...(shared.folder ? [] : [folderChange(shared.path, "create")]),
    ...(shared.database ? [] : [databaseChange("create")]),
  ];
}

function sharedRemoval(shared: SharedState | undefined): PlannedChange[] {
  if (shared === undefined) return [];
  return [
    ...(shared.database ? [databaseChange("delete")] : []),
    ...(shared.folder ? [folderChange(shared.path, "delete")] : []),
  ];
}

function databaseChange(action: "create" | "delete"): PlannedChange {
  return { address: "metadata_database", type: "database", action, attributes: [] };
}

function fileChanges({ files, deployment, state }: PlannedBroker): PlannedChange[] {
  const wanted = renderProperties(files, deployment);
  const attributes = propertyChanges(state.properties ?? "", wanted);
  const changes: PlannedChange[] = [];
  if (!state.folder) changes.push(brokerFolderChange(files, "create"));
  if (state.properties === undefined || attributes.length > 0) {
    changes.push({
      address: addressOf(files, "configuration"),
      type: "file",
      action: state.properties === undefined ? "create" : "update",
      attributes,
    });
  }
  return changes;
}

function startChange(broker: PlannedBroker): PlannedChange[] {
  const { files, deployment, state } = broker;
  const placement = placementOf(deployment.placement, files.brokerId);
  const { host, adminPort } = placement;
  const listeners = [
    ...endpointsAt(placement, { ...deployment, brokers: 1 }).map(({ name, bootstrapServers }) => ({
      name: `${name.replace("-", "_")}_listener`,
      before: null,
      after: bootstrapServers,
    })),
    ...(adminPort === undefined
      ? []
      : [{ name: "admin_listener", before: null, after: `${host}:${adminPort}` }]),
  ];
  if (!state.running) return [processChange(files, "create", listeners)];
  return needsRestart(broker) ? [processChange(files, "replace", [])] : [];
}

function stopChange({ files, state }: PlannedBroker): PlannedChange[] {
  return state.running ? [processChange(files, "delete", [])] : [];
}

function removal({ files, state }: PlannedBroker): PlannedChange[] {
  return state.folder ? [brokerFolderChange(files, "delete")] : [];
}

/** Here `before` is what was applied and `after` what exists. */
function driftChanges({ files, deployment, state }: PlannedBroker, paused: boolean) {
  if (!state.folder) return [brokerFolderChange(files, "delete")];
  const made = renderProperties(files, deployment);
  const changes: PlannedChange[] = [];
  const attributes = propertyChanges(made, state.properties ?? "", LIVE_KEYS);
  if (state.properties === undefined || attributes.length > 0) {
    const action = state.properties === undefined ? "delete" : "update";
    const address = addressOf(files, "configuration");
    changes.push({ address, type: "file", action, attributes });
  }
  if (!paused && !state.running) changes.push(processChange(files, "delete", []));
  if (paused && state.running) changes.push(processChange(files, "create", []));
  return changes;
}

/** As `process`, or `broker-2/process` of one of several. */
function addressOf({ brokerId }: BrokerFiles, part: string): string {
  return brokerId === 0 ? part : `broker-${brokerId}/${part}`;
}

function brokerFolderChange(files: BrokerFiles, action: "create" | "delete"): PlannedChange {
  return { ...folderChange(files.folder, action), address: addressOf(files, "folder") };
}

function folderChange(path: string, action: "create" | "delete"): PlannedChange {
  const before = action === "delete" ? path : null;
  const after = action === "create" ? path : null;
  return {
    address: "folder",
    type: "folder",
    action,
    attributes: [{ name: "path", before, after }],
  };
}

function processChange(
  files: BrokerFiles,
  action: PlannedChange["action"],
  attributes: readonly AttributeChange[],
): PlannedChange {
  return { address: addressOf(files, "process"), type: "process", action, attributes };
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
