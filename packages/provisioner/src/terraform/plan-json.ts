/**
 * Turns `terraform show -json` of a plan into what a person reads and approves. Reads only what the format
 * guarantees (format version 1), and shows no sensitive value.
 */
import type { AttributeChange, ChangeAction, PlannedChange } from "../change-plan.ts";
import { ProvisionError } from "../cluster-driver.ts";
import { addedByHand } from "./added-by-hand.ts";

interface ResourceChange {
  readonly address: string;
  readonly type: string;
  readonly change: {
    readonly actions: readonly string[];
    readonly before: unknown;
    readonly after: unknown;
    readonly after_unknown: unknown;
    readonly before_sensitive: unknown;
    readonly after_sensitive: unknown;
    readonly importing?: unknown;
  };
}

const SENSITIVE = "(sensitive)";
const UNKNOWN = "(known after apply)";

/** Repeats `tags`, with what the provider adds. */
const REPEATING = new Set(["tags_all"]);
/** Attributes that identify a removed resource; the others say nothing new. */
const IDENTIFYING = new Set(["id", "arn", "name", "bucket"]);

/** The plan's changes, without reads and no-ops. */
export function plannedChanges(plan: unknown): PlannedChange[] {
  return changesIn(plan, "resource_changes").flatMap((resource) => {
    const action = actionOf(resource.change);
    if (action === undefined) return [];
    const { address, type } = resource;
    return [{ address, type, action, attributes: attributesOf(resource, action) }];
  });
}

/**
 * The drift in a refresh-only plan. Attributes that the stack does not set belong to AWS (a group's instances, a
 * load balancer's addresses) and are no drift; added rules and policies are.
 */
export function driftedChanges(plan: unknown): PlannedChange[] {
  const changed = changedAttributes(plan);
  const beside = new Map(addedByHand(plan).map((each) => [each.address, each]));
  const merged = changed.map((change) => {
    const { attributes = [] } = beside.get(change.address) ?? {};
    const known = new Set(change.attributes.map(({ name }) => rootOf(name)));
    const more = attributes.filter(({ name }) => !known.has(name));
    beside.delete(change.address);
    return { ...change, attributes: [...change.attributes, ...more] };
  });
  return [...merged, ...beside.values()];
}

function changedAttributes(plan: unknown): PlannedChange[] {
  const configured = configuredAttributes(plan);
  return changesIn(plan, "resource_drift").flatMap((resource) => {
    const action = actionOf(resource.change);
    if (action === undefined) return [];
    const { address, type } = resource;
    const attributes = attributesOf(resource, action).filter(
      ({ name }) => action === "delete" || configured.get(address)?.has(rootOf(name)) === true,
    );
    if (action === "update" && attributes.length === 0) return [];
    return [{ address, type, action, attributes }];
  });
}

/** Ids of the resources of that type that the plan deletes or replaces. */
export function deletedIds(plan: unknown, type: string): string[] {
  return changesIn(plan, "resource_changes").flatMap((resource) => {
    const id = at(resource.change.before, "id");
    const deleted = resource.type === type && resource.change.actions.includes("delete");
    return deleted && typeof id === "string" ? [id] : [];
  });
}

/** The attributes that the stack sets, by the address of the resource. */
function configuredAttributes(plan: unknown): Map<string, ReadonlySet<string>> {
  const module = at(plan, "configuration", "root_module");
  const resources = at(module, "resources");
  const pairs = (Array.isArray(resources) ? resources : []).map(
    (resource): [string, ReadonlySet<string>] => {
      const expressions = at(resource, "expressions");
      const names = typeof expressions === "object" && expressions !== null ? expressions : {};
      return [String(at(resource, "address")), new Set(Object.keys(names))];
    },
  );
  return new Map(pairs);
}

function changesIn(plan: unknown, key: "resource_changes" | "resource_drift"): ResourceChange[] {
  const version = at(plan, "format_version");
  if (typeof version !== "string" || !version.startsWith("1.")) {
    throw new ProvisionError("plan_failed", "Terraform printed a plan in a format that is unknown");
  }
  const changes = at(plan, key);
  return (Array.isArray(changes) ? changes : []).filter(
    (change) => at(change, "mode") === "managed",
  ) as ResourceChange[];
}

function actionOf(change: ResourceChange["change"]): ChangeAction | undefined {
  const actions = change.actions.join(" ");
  // An import that changes something beside is an update; Terraform does both.
  if (change.importing && (actions === "no-op" || actions === "update")) return "import";
  if (actions === "create" || actions === "update" || actions === "delete") return actions;
  if (actions === "delete create" || actions === "create delete") return "replace";
  return undefined;
}

function attributesOf({ type, change }: ResourceChange, action: ChangeAction): AttributeChange[] {
  const before = leavesOf(change.before, change.before_sensitive);
  const after = leavesOf(change.after, change.after_sensitive);
  for (const [name, unknown] of leavesOf(change.after_unknown, false)) {
    // The structure of a list is repeated with `false` where its parts are known.
    if (unknown === "true") after.set(name, UNKNOWN);
  }
  if (action === "delete") {
    return [...before]
      .filter(([name]) => IDENTIFYING.has(name))
      .map(([name, value]) => ({ name, before: value, after: null }));
  }
  const names = new Set([...before.keys(), ...after.keys()]);
  return [...names]
    .filter((name) => !REPEATING.has(rootOf(name)) && before.get(name) !== after.get(name))
    .map((name) =>
      readable(type, {
        name,
        before: before.get(name) ?? null,
        after: after.get(name) ?? null,
      }),
    )
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** A base64 script is not readable: of a changed one, the differing lines are shown. */
function readable(type: string, attribute: AttributeChange): AttributeChange {
  if (type !== "aws_launch_template" || attribute.name !== "user_data") return attribute;
  const lines = (value: string | null) =>
    value === null || value === UNKNOWN || value === SENSITIVE
      ? value
      : Buffer.from(value, "base64").toString("utf8");
  const [before, after] = [lines(attribute.before), lines(attribute.after)];
  if (before === null || after === null || after === UNKNOWN) {
    return { ...attribute, before, after };
  }
  const [old, wanted] = [before.split("\n"), after.split("\n")];
  return {
    ...attribute,
    before: old.filter((line) => !wanted.includes(line)).join("\n"),
    after: wanted.filter((line) => !old.includes(line)).join("\n"),
  };
}

/** Every value below `value` by its path, as text. Nulls and empty lists are left out. */
function leavesOf(value: unknown, sensitive: unknown, path = ""): Map<string, string> {
  if (value === null || value === undefined) return new Map();
  if (sensitive === true) return new Map([[path, SENSITIVE]]);
  if (typeof value !== "object") {
    return path === "" || value === "" ? new Map() : new Map([[path, String(value)]]);
  }
  const entries: [string, unknown][] = Array.isArray(value)
    ? value.map((item, index) => [`[${index}]`, item])
    : Object.entries(value).map(([key, item]) => [path === "" ? key : `.${key}`, item]);
  const leaves = entries.flatMap(([key, item]) => {
    const inner = key.startsWith("[") ? Number(key.slice(1, -1)) : key.replace(/^\./, "");
    return [...leavesOf(item, at(sensitive, inner), `${path}${key}`)];
  });
  return new Map(leaves);
}

function rootOf(name: string): string {
  return name.split(/[.[]/, 1)[0] ?? name;
}

/** The value at a path of keys; undefined where there is none. */
function at(value: unknown, ...path: readonly (string | number)[]): unknown {
  let current = value;
  for (const key of path) {
    if (typeof current !== "object" || current === null) return undefined;
    current = (current as Record<string | number, unknown>)[key];
  }
  return current;
}
