import { readFileSync } from "node:fs";
import { type ClusterStackSpec, type SynthRun, synthesizeCluster } from "../src/index.ts";
import { synthesize } from "../src/synth.ts";

export const OFFLINE: SynthRun = { offline: true };

/** Of no use to anybody: it has the name that RDS's authority of the region has, and its key is gone. */
export const DATABASE_AUTHORITY = readFileSync(
  new URL("./database-authority.pem", import.meta.url),
  "utf8",
);

/** Three slots over three zones, with everything that can be asked for. */
export const SPEC: ClusterStackSpec = {
  mode: "running",
  organizationId: "org_01JD0000000000000000000001",
  environmentId: "env_01JD0000000000000000000002",
  clusterId: "clu_01JD0000000000000000000003",
  name: "orders",
  labels: { team: "orders" },
  accountId: "111122223333",
  region: "eu-central-1",
  zones: ["eu-central-1a", "eu-central-1b", "eu-central-1c"],
  slots: 3,
  size: "small",
  wal: { type: "gp3", sizeGib: 20, iops: 3000, throughputMibps: 250 },
  network: {
    vpcId: undefined,
    subnetIds: [],
    cidr: "10.40.0.0/16",
    access: "endpoint_service",
    allowedPrincipals: ["arn:aws:iam::444455556666:root"],
    allowedCidrs: ["10.8.0.0/16"],
  },
  storage: { kmsKeyArn: undefined },
  artefact: { bucket: "installation-artefacts", key: "broker/abc", sha256: "ab".repeat(32) },
  amiId: "ami-0123456789abcdef0",
  properties: { "s3.wal.cache.size": "805306368" },
  provisionerRoleArn: "arn:aws:iam::111122223333:role/millrace/provisioner",
  permissionsBoundaryArn: "arn:aws:iam::111122223333:policy/millrace-boundary",
  controlLink: {
    name: "com.amazonaws.vpce.eu-central-1.vpce-svc-0123456789abcdef0",
    domain: "link.millrace.example.com",
    zones: ["eu-central-1a", "eu-central-1b", "eu-central-1c"],
  },
  databaseAuthority: DATABASE_AUTHORITY,
  alarmTopicArns: ["arn:aws:sns:eu-central-1:111122223333:alarms"],
};

export type Attributes = Record<string, unknown>;
/** Resources of a stack: type → name → attributes. */
export type Resources = Record<string, Record<string, Attributes>>;

export interface StackDocument {
  readonly resource: Resources;
  readonly output?: Record<string, { value: unknown }>;
  readonly variable?: Record<string, Attributes>;
  readonly data?: unknown;
}

/** Texts of cluster stacks by their changes: many tests look at the same few. */
const clusterTexts = new Map<string, string>();

/** The stack of `SPEC` with these changes; a copy of the caller's own. */
export function clusterStack(change: Partial<ClusterStackSpec> = {}): StackDocument {
  // A change that is undefined is another one than none.
  const key = JSON.stringify(change, (_, value) => (value === undefined ? "(undefined)" : value));
  let text = clusterTexts.get(key);
  if (text === undefined) {
    text = synthesizeCluster({ ...SPEC, ...change }, OFFLINE);
    clusterTexts.set(key, text);
  }
  return JSON.parse(text);
}

/** What `build` adds to an otherwise empty stack. */
export function stackOf(build: Parameters<typeof synthesize>[3]): StackDocument {
  return JSON.parse(synthesize("test", SPEC, OFFLINE, build));
}

/** The only resource of its type, or the one of that name. */
export function resource(stack: StackDocument, type: string, name?: string): Attributes {
  const all = stack.resource[type] ?? {};
  const names = Object.keys(all);
  const chosen = name ?? names[0];
  if (chosen === undefined || all[chosen] === undefined || (name === undefined && names.length > 1))
    throw new Error(`${type}: not one ${name ?? "resource"} among ${names.join(", ") || "none"}`);
  return all[chosen];
}

/** Addresses of all resources, sorted. */
export function addresses(stack: StackDocument): string[] {
  return Object.entries(stack.resource)
    .flatMap(([type, byName]) => Object.keys(byName).map((name) => `${type}.${name}`))
    .sort();
}

const OWNER_TAG = /^(millrace:(tenant|environment|cluster|managed-by|address)|team)$/;

/** What every resource has the same, and what changes on its own, has tests of its own. */
function essential(key: string, value: unknown): unknown {
  if (key === "user_data") return "(user data)";
  if (key === "tag") return "(tags)";
  if (key !== "tags" || value === null) return value;
  const own = Object.entries(value as Attributes).filter(([name]) => !OWNER_TAG.test(name));
  return own.length === 0 ? undefined : Object.fromEntries(own);
}

/** The stack as text for a snapshot: without owner's tags and user data. */
export function snapshotText(stack: StackDocument): string {
  return `${JSON.stringify(stack, essential, 2)}\n`;
}

interface PolicyStatement {
  readonly Sid: string;
  readonly Action: string[];
  readonly Resource: string[];
  readonly Condition?: unknown;
}

/** Statements of an attribute that holds a policy's text. */
export function statements(attributes: Attributes, attribute = "policy"): PolicyStatement[] {
  return JSON.parse(String(attributes[attribute])).Statement;
}

/** Terraform's own words for the value of another resource. */
export function reference(expression: string): string {
  return `\${${expression}}`;
}
