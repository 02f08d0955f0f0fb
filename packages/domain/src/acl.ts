/** Access control lists with the semantics of Kafka's `StandardAuthorizer` (KIP-11, KIP-290). Names are Kafka's, in lower case. */
export const ACL_RESOURCE_TYPES = [
  "topic",
  "group",
  "cluster",
  "transactional_id",
  "delegation_token",
  "user",
] as const;
export type AclResourceType = (typeof ACL_RESOURCE_TYPES)[number];

/** `literal` with the name `*` is every resource of the type. */
export const ACL_PATTERN_TYPES = ["literal", "prefixed"] as const;
export type AclPatternType = (typeof ACL_PATTERN_TYPES)[number];

export const ACL_OPERATIONS = [
  "all",
  "read",
  "write",
  "create",
  "delete",
  "alter",
  "describe",
  "cluster_action",
  "describe_configs",
  "alter_configs",
  "idempotent_write",
  "create_tokens",
  "describe_tokens",
  "two_phase_commit",
] as const;
export type AclOperation = (typeof ACL_OPERATIONS)[number];

export const ACL_PERMISSIONS = ["allow", "deny"] as const;
export type AclPermission = (typeof ACL_PERMISSIONS)[number];

/** One rule. It has no id: two rules with the same fields are the same rule. */
export interface Acl {
  /** `User:alice`; `User:*` is everybody. */
  readonly principal: string;
  readonly resourceType: AclResourceType;
  readonly resourceName: string;
  readonly patternType: AclPatternType;
  readonly operation: AclOperation;
  readonly permission: AclPermission;
  /** The client's address; `*` is every address. */
  readonly host: string;
}

type Undefinable<T> = { readonly [K in keyof T]?: T[K] | undefined };

/** Which rules are meant; what is absent is not looked at. */
export interface AclFilter extends Undefinable<Omit<Acl, "patternType">> {
  /** `match`: every rule that applies to the resource `resourceName`, by its name, by a prefix or by `*`. */
  readonly patternType?: AclPatternType | "match" | undefined;
}

/** The only resource of the type `cluster`. */
export const ACL_CLUSTER_NAME = "kafka-cluster";
export const ACL_WILDCARD = "*";
const EVERYBODY = "User:*";
/** The broker's bounds, in bytes. */
export const ACL_RESOURCE_NAME_MAX = 1_024;
export const ACL_PRINCIPAL_MAX = 261;
export const ACL_PRINCIPAL_PATTERN = /^[A-Za-z]+:[^\p{Cc}\p{Cs}]+$/u;

/** What can be done to a resource (KIP-430); `all` goes with every type. */
const OPERATIONS: Readonly<Record<AclResourceType, readonly AclOperation[]>> = {
  topic: [
    ...(["read", "write", "create", "delete", "alter", "describe"] as const),
    ...(["describe_configs", "alter_configs"] as const),
  ],
  group: ["read", "delete", "describe", "describe_configs", "alter_configs"],
  cluster: [
    ...(["create", "alter", "describe", "cluster_action"] as const),
    ...(["describe_configs", "alter_configs", "idempotent_write"] as const),
  ],
  transactional_id: ["write", "describe", "two_phase_commit"],
  delegation_token: ["describe"],
  user: ["create_tokens", "describe_tokens"],
};

export function aclOperationsOf(type: AclResourceType): readonly AclOperation[] {
  return ["all", ...OPERATIONS[type]];
}

/** Operations that come with an allowed one. A denied one implies nothing. */
const IMPLIED: Readonly<Partial<Record<AclOperation, AclOperation>>> = {
  read: "describe",
  write: "describe",
  delete: "describe",
  alter: "describe",
  alter_configs: "describe_configs",
};

/** May `principal` do this to the resource, from this address? */
export interface AclQuestion {
  readonly principal: string;
  readonly operation: AclOperation;
  readonly resourceType: AclResourceType;
  readonly resourceName: string;
  /** Without one, only rules for every address count. */
  readonly host?: string | undefined;
}

/** What is configured at the broker and is no rule. */
export interface AclSettings {
  /** Whether the broker has an authorizer; without one everybody may do everything. */
  readonly enabled: boolean;
  readonly superUsers: ReadonlySet<string>;
  /** `allow.everyone.if.no.acl.found`. */
  readonly allowIfNoAcl: boolean;
}

/**
 * - `authorization_off`    the broker has no authorizer;
 * - `super_user`           super users may do everything;
 * - `denied_by_acl`        a rule denies it, whatever others allow;
 * - `allowed_by_acl`       a rule allows it, and none denies it;
 * - `no_acl_for_resource`  no rule names the resource: the broker's setting decides;
 * - `no_acl_allows`        rules name the resource, and none allows this.
 */
export const ACL_REASONS = [
  "authorization_off",
  "super_user",
  "denied_by_acl",
  "allowed_by_acl",
  "no_acl_for_resource",
  "no_acl_allows",
] as const;
export type AclReason = (typeof ACL_REASONS)[number];

export interface AclDecision {
  readonly allowed: boolean;
  readonly reason: AclReason;
  /** The rule that decided it: of several, the one that names the resource most precisely. */
  readonly acl: Acl | undefined;
}

/** Decides as the broker's authorizer does. `acls` may hold rules for other resources, too. */
export function decideAcl(
  question: AclQuestion,
  acls: readonly Acl[],
  settings: AclSettings,
): AclDecision {
  if (!settings.enabled) return { allowed: true, reason: "authorization_off", acl: undefined };
  if (settings.superUsers.has(question.principal)) {
    return { allowed: true, reason: "super_user", acl: undefined };
  }
  const named = acls.filter((acl) => namesResource(acl, question)).sort(byPrecision);
  if (named.length === 0) {
    return { allowed: settings.allowIfNoAcl, reason: "no_acl_for_resource", acl: undefined };
  }
  const own = named.filter((acl) => isMeant(acl, question));
  const denying = own.find(
    ({ permission, operation }) =>
      permission === "deny" && (operation === "all" || operation === question.operation),
  );
  if (denying) return { allowed: false, reason: "denied_by_acl", acl: denying };
  const allowing = own.find(
    ({ permission, operation }) =>
      permission === "allow" &&
      [operation, IMPLIED[operation]].some((each) => each === "all" || each === question.operation),
  );
  if (allowing) return { allowed: true, reason: "allowed_by_acl", acl: allowing };
  return { allowed: false, reason: "no_acl_allows", acl: undefined };
}

function namesResource(acl: Acl, { resourceType, resourceName }: AclQuestion): boolean {
  if (acl.resourceType !== resourceType) return false;
  if (acl.patternType === "prefixed") return resourceName.startsWith(acl.resourceName);
  return acl.resourceName === resourceName || acl.resourceName === ACL_WILDCARD;
}

function isMeant(acl: Acl, { principal, host }: AclQuestion): boolean {
  const isPrincipal = acl.principal === principal || acl.principal === EVERYBODY;
  return isPrincipal && (acl.host === ACL_WILDCARD || acl.host === host);
}

/** Literal names first, then the longest prefix, `*` last. */
function byPrecision(a: Acl, b: Acl): number {
  return precision(b) - precision(a);
}

function precision({ patternType, resourceName }: Acl): number {
  if (patternType === "prefixed") return resourceName.length;
  return resourceName === ACL_WILDCARD ? -1 : Number.POSITIVE_INFINITY;
}

/** Rules that a kind of client needs. */
export const ACL_TEMPLATES = ["producer", "consumer"] as const;
export type AclTemplate = (typeof ACL_TEMPLATES)[number];

export interface AclTemplateInput {
  readonly template: AclTemplate;
  readonly principal: string;
  readonly topic: string;
  /** How `topic`, `group` and `transactionalId` are meant. */
  readonly patternType: AclPatternType;
  readonly host: string;
  /** Of a consumer. */
  readonly group?: string | undefined;
  /** Of a producer that uses transactions. */
  readonly transactionalId?: string | undefined;
}

/** As `kafka-acls --producer` and `--consumer` would add them. */
export function aclsOfTemplate(input: AclTemplateInput): Acl[] {
  const { template, principal, topic, patternType, host, group, transactionalId } = input;
  const allow = (
    resourceType: AclResourceType,
    resourceName: string,
    operations: readonly AclOperation[],
  ): Acl[] =>
    operations.map((operation) => ({
      ...{ principal, resourceType, resourceName, patternType, operation, host },
      permission: "allow",
    }));
  if (template === "producer") {
    return [
      ...allow("topic", topic, ["write", "describe", "create"]),
      ...(transactionalId === undefined
        ? []
        : allow("transactional_id", transactionalId, ["write", "describe"])),
    ];
  }
  return [
    ...allow("topic", topic, ["read", "describe"]),
    ...(group === undefined ? [] : allow("group", group, ["read"])),
  ];
}
