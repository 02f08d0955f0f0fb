/** ACLs as people read them. Pure, so that it is tested alone. */
import type { Acl } from "@millrace/contract";
import type { AclReason } from "@millrace/domain";

/** `transactional_id` → `transactional ID`, `describe_configs` → `describe configs`. */
export function wordsOf(name: string): string {
  return name.replace("_id", " ID").replaceAll("_", " ");
}

/** `topics orders…`, `topic orders`, `every topic`. */
export function resourceWords(acl: Pick<Acl, "resource_type" | "resource_name" | "pattern_type">) {
  const type = wordsOf(acl.resource_type);
  if (acl.resource_type === "cluster") return "cluster";
  if (acl.pattern_type === "prefixed") return `${type} ${acl.resource_name}…`;
  return acl.resource_name === "*" ? `every ${type}` : `${type} ${acl.resource_name}`;
}

/** `Allow write on topic orders to User:alice`. */
export function aclWords(acl: Acl): string {
  const verb = acl.permission === "allow" ? "Allow" : "Deny";
  const host = acl.host === "*" ? "" : ` from ${acl.host}`;
  return `${verb} ${wordsOf(acl.operation)} on ${resourceWords(acl)} to ${acl.principal}${host}`;
}

/** Why it is allowed or denied; the ACL that decides is told beside it. */
export const REASON_WORDS: Readonly<Record<AclReason, string>> = {
  authorization_off: "This cluster does not check ACLs.",
  super_user: "It is a super user.",
  denied_by_acl: "An ACL denies it.",
  allowed_by_acl: "An ACL allows it, and none denies it.",
  no_acl_for_resource: "No ACL names the resource, so the cluster's default decides.",
  no_acl_allows: "ACLs name the resource, and none allows this.",
};
