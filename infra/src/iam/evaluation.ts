/**
 * IAM's decision on a request, as far as our policies need it: identity policies (or the resource's), a boundary and
 * a session policy must all allow, and none may deny. Source: "Policy evaluation logic" of the
 * IAM User Guide. With it, tests check a role's rights without an account, and the provisioner the policies of others' keys.
 */
import type { PolicyDocument, Statement } from "./document.ts";

export interface AccessRequest {
  /** `ec2:DeleteVolume`. */
  readonly action: string;
  /** An ARN, or `*` where the action has none. */
  readonly resource: string;
  /** Condition keys that the request has, by AWS's names: `aws:ResourceTag/millrace:cluster`. */
  readonly context?: Readonly<Record<string, string | readonly string[]>>;
}

export interface PolicySet {
  readonly identity: readonly PolicyDocument[];
  /** Statements of the resource's own policy that name the role: in one account they add to the role's policies. */
  readonly resource?: PolicyDocument;
  readonly boundary?: PolicyDocument;
  readonly session?: PolicyDocument;
}

/** Whether IAM would allow it. A condition operator that is not known here throws. */
export function isAllowed(policies: PolicySet, request: AccessRequest): boolean {
  const layers = [
    [...policies.identity, ...(policies.resource === undefined ? [] : [policies.resource])],
    ...(policies.boundary === undefined ? [] : [[policies.boundary]]),
    ...(policies.session === undefined ? [] : [[policies.session]]),
  ];
  const applying = layers.map((documents) =>
    documents
      .flatMap(({ Statement: statements }) => statements)
      .filter((statement) => applies(statement, request)),
  );
  return (
    applying.flat().every(({ Effect }) => Effect !== "Deny") &&
    applying.every((statements) => statements.some(({ Effect }) => Effect === "Allow"))
  );
}

function applies(statement: Statement, request: AccessRequest): boolean {
  const actionMatches =
    statement.NotAction === undefined
      ? many(statement.Action).some((pattern) => like(pattern, request.action, "i"))
      : !statement.NotAction.some((pattern) => like(pattern, request.action, "i"));
  const resourceMatches =
    statement.NotResource === undefined
      ? many(statement.Resource).some((pattern) => like(pattern, request.resource))
      : !statement.NotResource.some((pattern) => like(pattern, request.resource));
  return (
    actionMatches &&
    resourceMatches &&
    Object.entries(statement.Condition ?? {}).every(([operator, keys]) =>
      Object.entries(keys).every(([key, expected]) =>
        holds(
          operator,
          many(request.context?.[key]),
          many(expected),
          key in (request.context ?? {}),
        ),
      ),
    )
  );
}

function holds(
  operator: string,
  actual: readonly string[],
  expected: readonly string[],
  present: boolean,
): boolean {
  switch (operator) {
    case "StringEquals":
      return actual.some((value) => expected.includes(value));
    case "StringNotEquals":
      return !actual.some((value) => expected.includes(value));
    case "StringLike":
    // As IAM has it, ARNs are compared with wildcards by both operators.
    case "ArnEquals":
    case "ArnLike":
      return actual.some((value) => expected.some((pattern) => like(pattern, value)));
    case "ForAnyValue:StringNotLike":
      return actual.some((value) => !expected.some((pattern) => like(pattern, value)));
    case "ForAllValues:StringLike":
      return actual.every((value) => expected.some((pattern) => like(pattern, value)));
    case "Bool":
      return actual.some((value) => expected.includes(value));
    case "Null":
      return expected.includes(String(!present));
    default:
      throw new Error(`the condition operator ${operator} is not evaluated here: add it`);
  }
}

/** A foreign policy may have JSON's own booleans and numbers. */
function many(
  value: string | boolean | number | readonly (string | boolean | number)[] | undefined,
): readonly string[] {
  return value === undefined ? [] : [value].flat().map(String);
}

/** IAM's wildcards: `*` for any characters, `?` for one. */
function like(pattern: string, value: string, flags = ""): boolean {
  const escaped = pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&");
  const expression = escaped.replaceAll("*", ".*").replaceAll("?", ".");
  return new RegExp(`^${expression}$`, flags).test(value);
}
