import type { PolicyDocument, PolicyResource } from "./document.ts";
import type { PolicyContext, PolicyFinding } from "./finding.ts";

/** One rule: a name and what it finds in a document. */
export interface PolicyRule {
  readonly name: string;
  readonly check: (document: PolicyDocument, context: PolicyContext) => Complaint[];
}

/** A finding before the rule's name is on it. */
export interface Complaint {
  readonly address: string;
  readonly message: string;
  readonly severity?: PolicyFinding["severity"];
}

/** Runs a check over every resource of the given types; `undefined` and `[]` mean that all is well. */
export function each(
  document: PolicyDocument,
  types: readonly string[],
  check: (resource: PolicyResource) => string | readonly string[] | undefined,
): Complaint[] {
  return document.resources
    .filter((resource) => types.includes(resource.type))
    .flatMap((resource) =>
      [check(resource) ?? []]
        .flat()
        .map((message): Complaint => ({ address: resource.address, message })),
    );
}

/** Resources of a type that refer by the attribute to the given one. */
export function referring(
  document: PolicyDocument,
  type: string,
  attribute: string,
  target: PolicyResource,
): PolicyResource[] {
  const address = target.address.replace(/\[[^\]]*\]$/, "");
  return document.resources.filter(
    (resource) =>
      resource.type === type &&
      (resource.references(attribute).includes(address) ||
        (typeof resource.values[attribute] === "string" &&
          [target.values.bucket, target.values.name, target.values.id].includes(
            resource.values[attribute],
          ))),
  );
}
