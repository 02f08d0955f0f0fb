import { list, record } from "./document.ts";

/** One statement of an IAM policy, with everything that may be one or many as a list. */
export interface PolicyStatement {
  readonly effect: "Allow" | "Deny";
  readonly actions: readonly string[];
  readonly resources: readonly string[];
  /** `*`, ARNs, services; empty in an identity's policy. */
  readonly principals: readonly string[];
  /** Condition keys in lower case with their values, whatever the operator. */
  readonly conditions: ReadonlyMap<string, readonly unknown[]>;
  /** `NotAction`, `NotResource`, `NotPrincipal`, where given. */
  readonly negated: readonly string[];
}

/** The statements of a policy document, or undefined where the text is not known or is no policy. */
export function statementsOf(policy: unknown): readonly PolicyStatement[] | undefined {
  if (typeof policy !== "string") return undefined;
  let document: Record<string, unknown> | undefined;
  try {
    document = record(JSON.parse(policy));
  } catch {
    return undefined;
  }
  if (document === undefined || document.Statement === undefined) return undefined;
  return list(document.Statement).map((statement) => readStatement(record(statement) ?? {}));
}

function readStatement(statement: Record<string, unknown>): PolicyStatement {
  const conditions = new Map<string, unknown[]>();
  for (const operator of Object.values(record(statement.Condition) ?? {})) {
    for (const [key, values] of Object.entries(record(operator) ?? {})) {
      const lower = key.toLowerCase();
      conditions.set(lower, [...(conditions.get(lower) ?? []), ...list(values)]);
    }
  }
  const principal = record(statement.Principal);
  return {
    effect: statement.Effect === "Deny" ? "Deny" : "Allow",
    actions: list(statement.Action).map(String),
    resources: list(statement.Resource).map(String),
    principals:
      principal === undefined
        ? list(statement.Principal).map(String)
        : Object.values(principal).flatMap((value) => list(value).map(String)),
    conditions,
    negated: ["NotAction", "NotResource", "NotPrincipal"].filter((key) => key in statement),
  };
}
