/**
 * From a stack's constructs to the text that Terraform reads. Nothing here asks AWS anything: a
 * stack holds no data source, so the same input always gives the same text, and a plan can be made
 * without an account.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AwsProvider, type AwsProviderConfig } from "@cdktn/provider-aws/lib/provider/index.js";
import { App, LocalBackend, TerraformElement, TerraformStack } from "cdktn";
import type { Node } from "constructs";

/** Under whose rights Terraform works in the tenant's account. */
export interface AssumeRole {
  readonly roleArn: string;
  readonly externalId: string;
  /** JSON of an inline policy that narrows the role to one cluster. At most 2,048 characters. */
  readonly sessionPolicy: string;
  /** At most 3,600: a role that another role assumed cannot have longer sessions. */
  readonly durationSeconds: number;
}

/** A resource that exists but that Terraform's state does not know. */
export interface ImportTarget {
  /** Address in the stack, as the tag `millrace:address` holds it. */
  readonly to: string;
  /** Id that the resource type's import asks for. */
  readonly id: string;
}

/** Where a stack's resources are. */
interface StackPlace {
  /** Twelve digits. With credentials of another account Terraform refuses to plan. */
  readonly accountId: string;
  readonly region: string;
}

/** What differs from run to run of one and the same stack. */
export interface SynthRun {
  /** Constraint on the AWS provider's version; `AWS_PROVIDER_VERSION` if absent. */
  readonly providerVersion?: string | undefined;
  /** Address of an emulator of all AWS services; its credentials are not secret. */
  readonly endpoint?: string;
  /** For plans without an account: invalid credentials, and no call that needs valid ones. */
  readonly offline?: true;
  readonly assumeRole?: AssumeRole;
  readonly imports?: readonly ImportTarget[];
  /**
   * What an emulator lacks: resource types to leave out (`aws_route53_zone`), or single attributes of
   * a type (`aws_lb.name`). Only what nothing refers to can be left out: Terraform refuses the rest
   * at validation.
   */
  readonly without?: readonly string[];
}

/**
 * The AWS provider that stacks, grants and rules were made for, and that the images contain. Another
 * one may call what the provisioner's role does not allow.
 */
export const AWS_PROVIDER_VERSION = "5.100.0";

/** The file name that Terraform expects the text under. */
export const STACK_FILE = "cdk.tf.json";

/** Where Terraform keeps its state, relative to its working folder. */
export const STATE_FILE = "terraform.tfstate";

/** The first with write-only attributes, which keep secrets out of the state. */
const TERRAFORM_VERSION = ">=1.11.0";

const SERVICES = [
  "acm",
  "autoscaling",
  "cloudwatch",
  "ec2",
  "ecr",
  "ecs",
  "efs",
  "elbv2",
  "events",
  "iam",
  "kms",
  "logs",
  "rds",
  "resourcegroupstaggingapi",
  "route53",
  "s3",
  "secretsmanager",
  "sns",
  "ssm",
  "sts",
] as const;

/** A stack whose resource addresses are its constructs' paths: `slot-0_wal`, without a hash. */
class ReadableStack extends TerraformStack {
  protected override allocateLogicalId(element: TerraformElement | Node): string {
    const node = TerraformElement.isTerraformElement(element) ? element.node : element;
    return node.scopes
      .slice(node.scopes.indexOf(this) + 1)
      .map((scope) => scope.node.id)
      .join("_");
  }
}

function providerOf({ accountId, region }: StackPlace, run: SynthRun): AwsProviderConfig {
  const fake = { accessKey: "none", secretKey: "none" };
  if (run.offline === true) {
    return {
      ...fake,
      region,
      skipCredentialsValidation: true,
      skipMetadataApiCheck: "true",
      skipRegionValidation: true,
      skipRequestingAccountId: true,
    };
  }
  const { assumeRole: role, endpoint } = run;
  return {
    region,
    allowedAccountIds: [accountId],
    ...(role === undefined
      ? {}
      : {
          assumeRole: [
            {
              roleArn: role.roleArn,
              externalId: role.externalId,
              policy: role.sessionPolicy,
              duration: `${role.durationSeconds}s`,
              sessionName: "millrace",
            },
          ],
        }),
    ...(endpoint === undefined
      ? {}
      : {
          ...fake,
          endpoints: [Object.fromEntries(SERVICES.map((service) => [service, endpoint]))],
          s3UsePathStyle: true,
          skipMetadataApiCheck: "true",
          skipRegionValidation: true,
        }),
  };
}

type Json = { [key: string]: unknown };

/** cdktn's own notes on where a resource was declared: they hold paths of this machine. */
function withoutNotes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNotes);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => key !== "//")
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, inner]) => [key, withoutNotes(inner)]),
  );
}

function leaveOut(resources: Json, left: string): void {
  const [type = "", attribute] = left.split(".");
  if (attribute === undefined) delete resources[type];
  else for (const each of Object.values(resources[type] ?? {})) delete (each as Json)[attribute];
}

function forRun(text: string, run: SynthRun): string {
  const stack = withoutNotes(JSON.parse(text)) as Json;
  const resources = stack.resource as Json | undefined;
  for (const left of run.without ?? []) leaveOut(resources ?? {}, left);
  if (run.imports !== undefined && run.imports.length > 0) stack.import = run.imports;
  return `${JSON.stringify(stack, null, 2)}\n`;
}

/** The Terraform JSON of the stack that `build` fills. Throws what the constructs throw. */
export function synthesize(
  id: string,
  place: StackPlace,
  run: SynthRun,
  build: (stack: TerraformStack) => void,
): string {
  const outdir = mkdtempSync(join(tmpdir(), "millrace-synth-"));
  try {
    const app = new App({ outdir, context: { targetVersions: { terraform: TERRAFORM_VERSION } } });
    const stack = new ReadableStack(app, id);
    new LocalBackend(stack, { path: STATE_FILE });
    new AwsProvider(stack, "aws", providerOf(place, run));
    const version = run.providerVersion ?? AWS_PROVIDER_VERSION;
    stack.addOverride("terraform.required_providers.aws.version", version);
    stack.addOverride("terraform.required_version", TERRAFORM_VERSION);
    build(stack);
    app.synth();
    return forRun(readFileSync(join(outdir, "stacks", id, STACK_FILE), "utf8"), run);
  } finally {
    rmSync(outdir, { recursive: true, force: true });
  }
}
