/** What was asked for on the command line. */
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import {
  AWS_REGIONS,
  type AwsRegion,
  CONTROL_PLANE_VPC_RANGE,
  regionFacts,
} from "@millrace/domain";
import type { ControlPlaneSpec } from "../../src/stacks/control-plane/spec.ts";
import { AWS_PROVIDER_VERSION } from "../../src/synth.ts";
import { Refused } from "./refused.ts";

export const USAGE = `npm run aws:bootstrap -- --region <region> --account <12 digits> [options]

Without --apply it says what it would do and asks AWS nothing. With --apply it uses the
credentials of your environment (AWS_PROFILE, AWS_ACCESS_KEY_ID …), which must be able to
administer the account.

  --domain <name>         domain name of console and API
  --certificate <arn>     issued ACM certificate in the region, for <domain> and *.link.<domain>
  --allow <cidr>          network that may reach console and API; may be repeated
  --image <name>=<uri>    api, console and worker, each by digest (…@sha256:…); may be repeated
  --broker <file>         broker build for ARM64 Linux
  --ami <id>              AMI of brokers' instances: an Amazon Linux 2023 for ARM64 of the region
  --installation <name>   default main
  --cidr <range>          of the VPC, default ${CONTROL_PLANE_VPC_RANGE}
  --database-class <c>    default db.t4g.medium
  --alarm-topic <arn>     SNS topic of the region that alarms of control plane and clusters
                          notify; up to five times
  --secrets-version <n>   increase it to change the database password and sign everybody out;
                          default: the version that the installation has
  --state-dir <folder>    default ~/.millrace-aws/<installation>-<region>
  --existing              the installation exists, its state is in its bucket
  --provider-version <v>  constraint on the AWS provider, default ${AWS_PROVIDER_VERSION}
  --endpoint <url>        an emulator instead of AWS
  --without <type>        resource type that the emulator lacks; may be repeated
  --apply                 create or change the resources
  --yes                   apply without asking`;

export interface BootstrapRequest {
  /** The whole; its stage is chosen on the way. */
  readonly spec: Omit<ControlPlaneSpec, "stage" | "brokerBuild" | "secretsVersion">;
  /** Absent: the one that the installation has. */
  readonly secretsVersion: number | undefined;
  readonly brokerPath: string;
  readonly stateDir: string;
  readonly existing: boolean;
  readonly providerVersion: string;
  readonly endpoint: string | undefined;
  /** Resource types that an emulator lacks; none on AWS. */
  readonly without: readonly string[];
  readonly apply: boolean;
  readonly yes: boolean;
}

const BROKER = resolve(
  import.meta.dirname,
  "../../../dataplane/target/aarch64-unknown-linux-gnu/release/millrace",
);

/** Throws {@link Refused} where an argument is wrong. */
export function readRequest(args: readonly string[]): BootstrapRequest {
  const { values } = parseArgs({ args: [...args], options: OPTIONS });
  const region = AWS_REGIONS.find((known) => known === values.region);
  if (region === undefined) throw new Refused(`--region: one of ${AWS_REGIONS.join(", ")}`);
  if (!/^\d{12}$/.test(values.account ?? "")) throw new Refused("--account: twelve digits");
  const images = imagesOf(values.image ?? []);
  const without = values.without ?? [];
  if (without.length > 0 && values.endpoint === undefined) {
    throw new Refused("--without: only for an emulator; give --endpoint");
  }
  return {
    spec: {
      installation: values.installation,
      accountId: values.account as string,
      region,
      zones: zonesOf(region),
      cidr: values.cidr,
      domainName: values.domain ?? "",
      certificateArn: values.certificate ?? "",
      allowedCidrs: values.allow ?? [],
      ...(images === undefined ? {} : { images }),
      amiId: values.ami ?? "",
      databaseClass: values["database-class"],
      alarmTopicArns: values["alarm-topic"] ?? [],
    },
    secretsVersion: positive(values["secrets-version"], "--secrets-version"),
    brokerPath: values.broker,
    stateDir:
      values["state-dir"] ?? join(homedir(), ".millrace-aws", `${values.installation}-${region}`),
    existing: values.existing,
    providerVersion: values["provider-version"],
    endpoint: values.endpoint,
    without,
    apply: values.apply,
    yes: values.yes,
  };
}

const OPTIONS = {
  region: { type: "string" },
  account: { type: "string" },
  installation: { type: "string", default: "main" },
  domain: { type: "string" },
  certificate: { type: "string" },
  allow: { type: "string", multiple: true },
  image: { type: "string", multiple: true },
  broker: { type: "string", default: BROKER },
  ami: { type: "string" },
  cidr: { type: "string", default: CONTROL_PLANE_VPC_RANGE },
  "database-class": { type: "string", default: "db.t4g.medium" },
  "alarm-topic": { type: "string", multiple: true },
  "secrets-version": { type: "string" },
  "state-dir": { type: "string" },
  existing: { type: "boolean", default: false },
  "provider-version": { type: "string", default: AWS_PROVIDER_VERSION },
  endpoint: { type: "string" },
  without: { type: "string", multiple: true },
  apply: { type: "boolean", default: false },
  yes: { type: "boolean", default: false },
} as const;

function zonesOf(region: AwsRegion): readonly string[] {
  return regionFacts(region).zones;
}

function positive(text: string | undefined, option: string): number | undefined {
  if (text === undefined) return undefined;
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new Refused(`${option}: a whole number from 1`);
  return Number(text);
}

function imagesOf(given: readonly string[]): ControlPlaneSpec["images"] {
  if (given.length === 0) return undefined;
  const images = Object.fromEntries(
    given.map((image) => {
      const at = image.indexOf("=");
      return [image.slice(0, at), image.slice(at + 1)];
    }),
  );
  const { api, console: console_, worker } = images;
  if (!api || !console_ || !worker || Object.keys(images).length !== 3) {
    throw new Refused("--image: give api=…, console=… and worker=…");
  }
  return { api, console: console_, worker };
}
