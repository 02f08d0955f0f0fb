/**
 * One view of the two documents that rules read: the stack as it was synthesized (`cdk.tf.json`) and
 * a plan (`terraform show -json`). A stack knows every setting but holds references instead of
 * values; a plan holds values, but neither `lifecycle` nor what AWS decides only at apply.
 */

/** A value that the plan will know only after the apply. Rules take it as set, and never as wrong. */
export const UNKNOWN = Symbol("known after apply");

export type Attributes = Readonly<Record<string, unknown>>;

export interface PolicyResource {
  readonly address: string;
  readonly type: string;
  readonly values: Attributes;
  /** Addresses without index that the attribute refers to, such as `aws_s3_bucket.data`. */
  readonly references: (attribute: string) => readonly string[];
}

interface PlannedDeletion {
  readonly address: string;
  readonly type: string;
  /** A replacement creates another in its place; the data is gone all the same. */
  readonly replaced: boolean;
}

export interface PolicyDocument {
  /** Only a stack has `lifecycle`; only a plan has deletions. */
  readonly source: "stack" | "plan";
  readonly resources: readonly PolicyResource[];
  readonly deletions: readonly PlannedDeletion[];
  /** Addresses of data sources and modules, which stacks do not have. */
  readonly foreign: readonly string[];
}

/** `cdk.tf.json` or `terraform show -json`, as text or parsed. */
export function readDocument(input: unknown): PolicyDocument {
  const document = record(typeof input === "string" ? JSON.parse(input) : input);
  if (document === undefined) {
    throw new TypeError("expected cdk.tf.json or `terraform show -json` as an object or its text");
  }
  if ("planned_values" in document || "resource_changes" in document) return readPlan(document);
  if ("resource" in document || "terraform" in document) return readStack(document);
  throw new TypeError(
    "neither a synthesized stack (no `resource`) nor a plan (no `planned_values`): pass cdk.tf.json or the output of `terraform show -json <plan>`",
  );
}

export function record(value: unknown): Record<string, unknown> | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : undefined;
}

export function list(value: unknown): readonly unknown[] {
  if (value === undefined || value === null || value === UNKNOWN) return [];
  return Array.isArray(value) ? value : [value];
}

/** Nested blocks: synthesis writes a single block as an object, a plan always as a list. */
export function blocks(values: Attributes, name: string): readonly Attributes[] {
  return list(values[name])
    .map(record)
    .filter((block) => block !== undefined);
}

/** A reference in a stack or an unknown in a plan: there is a value, only not here. */
export function isLater(value: unknown): boolean {
  return value === UNKNOWN || (typeof value === "string" && value.includes("${"));
}

/** Set to something: a text that is not empty, a reference, or a value known later. */
export function isSet(value: unknown): boolean {
  return isLater(value) || (typeof value === "string" ? value !== "" : value != null);
}

/** True, or not known yet. */
export function isTrue(value: unknown): boolean {
  return value === true || value === "true" || value === UNKNOWN;
}

function readStack(document: Record<string, unknown>): PolicyDocument {
  const defaults = stackDefaultTags(document);
  const resources: PolicyResource[] = [];
  for (const [type, byName] of Object.entries(record(document.resource) ?? {})) {
    for (const [name, body] of Object.entries(record(byName) ?? {})) {
      const written = record(body) ?? {};
      const values =
        Object.keys(defaults).length === 0
          ? written
          : { ...written, tags_all: { ...defaults, ...record(written.tags) } };
      resources.push({
        address: `${type}.${name}`,
        type,
        values,
        references: (attribute) => referencesIn(values[attribute]),
      });
    }
  }
  const foreign = [
    ...Object.entries(record(document.data) ?? {}).flatMap(([type, byName]) =>
      Object.keys(record(byName) ?? {}).map((name) => `data.${type}.${name}`),
    ),
    ...Object.keys(record(document.module) ?? {}).map((name) => `module.${name}`),
  ];
  return { source: "stack", resources, deletions: [], foreign };
}

function stackDefaultTags(document: Record<string, unknown>): Attributes {
  const [provider] = list(record(document.provider)?.aws).map(record);
  const [defaults] = provider === undefined ? [] : blocks(provider, "default_tags");
  return record(defaults?.tags) ?? {};
}

function referencesIn(value: unknown): readonly string[] {
  const text = JSON.stringify(value) ?? "";
  const expressions = text.match(/\$\{[^}]*\}/g)?.join(" ") ?? "";
  return [...new Set(expressions.match(/\baws_[a-z0-9_]+\.[A-Za-z0-9_-]+/g) ?? [])];
}

function readPlan(plan: Record<string, unknown>): PolicyDocument {
  const changes = list(plan.resource_changes).map((change) => record(change) ?? {});
  const changeOf = new Map(changes.map((change) => [String(change.address), change]));
  const configured = configuredResources(plan);
  const root = record(record(plan.planned_values)?.root_module) ?? {};
  const resources = list(root.resources)
    .map((resource) => record(resource) ?? {})
    .filter((resource) => resource.mode !== "data")
    .map((resource): PolicyResource => {
      const address = String(resource.address);
      const unknown = record(changeOf.get(address)?.change)?.after_unknown;
      const expressions = configured.get(withoutIndex(address)) ?? {};
      return {
        address,
        type: String(resource.type),
        values: record(withUnknown(resource.values, unknown)) ?? {},
        references: (attribute) => planReferences(expressions[attribute]),
      };
    });
  return { source: "plan", resources, deletions: deletionsOf(changes), foreign: foreignIn(plan) };
}

function configuredResources(plan: Record<string, unknown>): Map<string, Attributes> {
  const root = record(record(plan.configuration)?.root_module) ?? {};
  return new Map(
    list(root.resources).map((resource) => {
      const { address, expressions } = record(resource) ?? {};
      return [String(address), record(expressions) ?? {}];
    }),
  );
}

function foreignIn(plan: Record<string, unknown>): string[] {
  const root = record(record(plan.configuration)?.root_module) ?? {};
  return [
    ...list(root.resources)
      .map((resource) => record(resource) ?? {})
      .filter((resource) => resource.mode === "data")
      .map((resource) => String(resource.address)),
    ...Object.keys(record(root.module_calls) ?? {}).map((name) => `module.${name}`),
  ];
}

function deletionsOf(changes: readonly Record<string, unknown>[]): PlannedDeletion[] {
  return changes.flatMap((change) => {
    const actions = list(record(change.change)?.actions);
    if (change.mode === "data" || !actions.includes("delete")) return [];
    const replaced = actions.includes("create");
    return [{ address: String(change.address), type: String(change.type), replaced }];
  });
}

function planReferences(expression: unknown): readonly string[] {
  const found = new Set<string>();
  const walk = (value: unknown): void => {
    if (Array.isArray(value)) for (const item of value) walk(item);
    const fields = record(value);
    if (fields === undefined) return;
    for (const [key, inner] of Object.entries(fields)) {
      if (key !== "references") walk(inner);
      else for (const reference of list(inner)) found.add(resourceOf(String(reference)));
    }
  };
  walk(expression);
  return [...found];
}

/** `aws_s3_bucket.data[0].arn` → `aws_s3_bucket.data`. */
function resourceOf(reference: string): string {
  return reference.split(".").slice(0, 2).map(withoutIndex).join(".");
}

function withoutIndex(address: string): string {
  return address.replace(/\[[^\]]*\]$/, "");
}

/** Puts UNKNOWN wherever the plan's mask says `true`. */
function withUnknown(value: unknown, mask: unknown): unknown {
  if (mask === true) return UNKNOWN;
  if (Array.isArray(mask)) {
    const items = Array.isArray(value) ? value : [];
    const length = Math.max(items.length, mask.length);
    return Array.from({ length }, (_, index) => withUnknown(items[index], mask[index]));
  }
  const masks = record(mask);
  if (masks === undefined) return value;
  const merged: Record<string, unknown> = { ...record(value) };
  for (const [key, inner] of Object.entries(masks)) merged[key] = withUnknown(merged[key], inner);
  return merged;
}
