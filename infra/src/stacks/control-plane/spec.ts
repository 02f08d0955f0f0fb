/** What an installation's control plane on AWS is made from. */

/**
 * - `foundation`  what must be there before images and broker builds can be: keys, bucket,
 *                 repositories, the permissions boundary;
 * - `complete`    all of it.
 */
export type ControlPlaneStage = "foundation" | "complete";

/** Container images by digest (`…@sha256:…`), so that what runs is what was pushed. */
export interface ControlPlaneImages {
  readonly api: string;
  readonly console: string;
  readonly worker: string;
}

/** A broker build that instances download, on the disk of the machine that applies the stack. */
export interface BrokerBuild {
  readonly path: string;
  /** SHA-256 of the file, lower-case hex. */
  readonly sha256: string;
}

export interface ControlPlaneSpec {
  readonly stage: ControlPlaneStage;
  /** Tells installations in one account apart: 3 to 20 of a-z, 0-9 and `-`. */
  readonly installation: string;
  /** Twelve digits. */
  readonly accountId: string;
  readonly region: string;
  /** Two or three zones of the region, by name. */
  readonly zones: readonly string[];
  /** IPv4 range of the VPC, /16 to /22. */
  readonly cidr: string;
  /** Name that browsers and clients use. */
  readonly domainName: string;
  /** ARN of an issued ACM certificate in the region, for the domain name and `*.link.` before it. */
  readonly certificateArn: string;
  /** Ranges that reach the console and the API. `0.0.0.0/0` is a public listener, asked for. */
  readonly allowedCidrs: readonly string[];
  /** Absent in the foundation. */
  readonly images?: ControlPlaneImages;
  readonly brokerBuild: BrokerBuild;
  /** The AMI of brokers' instances: an Amazon Linux 2023 for ARM64 of the region. Empty in the foundation. */
  readonly amiId: string;
  /** RDS instance class, such as `db.t4g.medium`. */
  readonly databaseClass: string;
  /** Raised to give the database and the sessions new secrets. */
  readonly secretsVersion: number;
  /** SNS topics of the region that the alarms of control plane and clusters notify. */
  readonly alarmTopicArns: readonly string[];
}

export class ControlPlaneSpecError extends Error {
  override readonly name = "ControlPlaneSpecError";
}

const ZONES_MIN = 2;
const ZONES_MAX = 3;
/** Actions of an alarm for each of its states, as `PutMetricAlarm` takes them. */
const ALARM_TOPICS_MAX = 5;

/** The command that prints the newest AMI. */
function findAmi(region: string): string {
  const parameter = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64";
  return `  aws ssm get-parameter --region ${region} --name ${parameter} --query Parameter.Value --output text`;
}

/** Throws a {@link ControlPlaneSpecError} that says what to change. */
export function checkControlPlaneSpec(spec: ControlPlaneSpec): void {
  const refuse = (message: string): never => {
    throw new ControlPlaneSpecError(message);
  };
  if (!/^[a-z0-9][a-z0-9-]{1,18}[a-z0-9]$/.test(spec.installation)) {
    refuse("installation: 3 to 20 of a-z, 0-9 and -, neither first nor last a -");
  }
  if (!/^\d{12}$/.test(spec.accountId)) refuse("account: twelve digits");
  if (spec.zones.length < ZONES_MIN || spec.zones.length > ZONES_MAX) {
    refuse(`zones: name ${ZONES_MIN} or ${ZONES_MAX}; a database of two zones needs two`);
  }
  if (!/^(?:\d{1,3}\.){3}\d{1,3}\/(1[6-9]|2[0-2])$/.test(spec.cidr)) {
    refuse("cidr: an IPv4 range of /16 to /22, such as 10.90.0.0/20");
  }
  const isTopic = (arn: string) =>
    new RegExp(`^arn:aws:sns:${spec.region}:\\d{12}:[\\w.-]{1,256}$`).test(arn);
  if (!spec.alarmTopicArns.every(isTopic)) {
    refuse(
      `alarm topics: ARNs of SNS topics in ${spec.region}: alarms notify only their own region`,
    );
  }
  if (spec.alarmTopicArns.length > ALARM_TOPICS_MAX) {
    refuse(`alarm topics: at most ${ALARM_TOPICS_MAX}, as CloudWatch has it`);
  }
  if (!/^[0-9a-f]{64}$/.test(spec.brokerBuild.sha256)) {
    refuse("broker build: SHA-256 as 64 hexadecimal digits");
  }
  if (spec.stage === "foundation") return;
  if (spec.images === undefined) refuse("images: push them and name each by its digest");
  for (const [name, image] of Object.entries(spec.images ?? {})) {
    if (!/@sha256:[0-9a-f]{64}$/.test(image)) {
      refuse(`image ${name}: name it by digest, …@sha256:…, so that what runs is what was pushed`);
    }
  }
  if (!/^ami-[0-9a-f]{8,17}$/.test(spec.amiId)) {
    refuse(
      `AMI: the id of an Amazon Linux 2023 for ARM64 in the region, as this prints it:\n${findAmi(spec.region)}`,
    );
  }
  if (!/^arn:aws:acm:/.test(spec.certificateArn)) {
    refuse("certificate: the ARN of an issued ACM certificate for the domain name");
  }
  if (spec.allowedCidrs.length === 0) {
    refuse("allowed CIDRs: name the networks that reach the console and the API");
  }
}
