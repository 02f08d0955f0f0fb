/**
 * The AWS account of the clusters, and the rights to work in it: a role of the tenant's account, assumed for at
 * most an hour with the tenant's external id and a session policy that limits it to one cluster.
 */
import { createHmac } from "node:crypto";
import { AutoScalingClient } from "@aws-sdk/client-auto-scaling";
import { CloudWatchLogsClient } from "@aws-sdk/client-cloudwatch-logs";
import { EC2Client } from "@aws-sdk/client-ec2";
import { ElasticLoadBalancingV2Client } from "@aws-sdk/client-elastic-load-balancing-v2";
import { IAMClient } from "@aws-sdk/client-iam";
import { KMSClient } from "@aws-sdk/client-kms";
import { ResourceGroupsTaggingAPIClient } from "@aws-sdk/client-resource-groups-tagging-api";
import { Route53Client } from "@aws-sdk/client-route-53";
import { S3Client } from "@aws-sdk/client-s3";
import { SecretsManagerClient } from "@aws-sdk/client-secrets-manager";
import { AssumeRoleCommand, STSClient } from "@aws-sdk/client-sts";
import {
  type AssumeRole,
  type BrokerArtefact,
  type ControlLinkService,
  clusterNames,
  type SynthRun,
  sessionPolicy,
} from "@millrace/infra";
import { ProvisionError } from "../cluster-driver.ts";
import { classOfAws, detailOfAws } from "./sdk-errors.ts";

/** Keys of an AWS identity, with a token where they are temporary. */
export interface AwsCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

export interface AwsAccountSettings {
  /** Role of the provisioner in the account: its ARN tells the account. */
  readonly roleArn: string;
  /** A secret of the installation; each tenant's external id is derived from it. */
  readonly externalId: string;
  /** Constraint on the version of the AWS provider; the one that the stacks were made for if absent. */
  readonly providerVersion?: string | undefined;
  /** The broker build that slots fetch. */
  readonly artefact: BrokerArtefact;
  /** The AMI of their instances. A new one reaches a cluster with its next apply, which replaces its instances. */
  readonly amiId: string;
  readonly permissionsBoundaryArn: string;
  /** Where brokers reach the control plane. */
  readonly controlLink: ControlLinkService;
  /** SNS topics that clusters' alarms are sent to. */
  readonly alarmTopicArns?: readonly string[] | undefined;
  /** Certificates, in PEM, of the authorities that AWS's databases have theirs from. Clusters of several brokers need them. */
  readonly databaseAuthorities?: string | undefined;
  /** Address of an emulator of all AWS services. */
  readonly endpoint?: string | undefined;
  /** What that emulator lacks: see `SynthRun.without`. */
  readonly without?: readonly string[] | undefined;
  /** The worker's own identity; from the environment if absent. */
  readonly credentials?: AwsCredentials | undefined;
  /** Time-out of one request, in milliseconds; `REQUEST_MS_MAX` if absent. */
  readonly requestMsMax?: number | undefined;
}

/** At most an hour: a role that another role assumed cannot have longer sessions. */
const SESSION_SECONDS = 3_600;
/** A session that ends within this is not used any more. */
const SESSION_REST_MS = 5 * 60_000;
/** Cached sessions; a cluster beyond it costs one more call. */
const SESSIONS_MAX = 500;
/** Per request: an endpoint that hangs must not block the caller. */
const CONNECT_MS_MAX = 5_000;
const REQUEST_MS_MAX = 30_000;
const ROLE_ARN = /^arn:aws[a-z-]*:iam::(\d{12}):role\/[\w+=,.@/-]+$/;

export interface AwsClients {
  readonly autoScaling: AutoScalingClient;
  readonly ec2: EC2Client;
  readonly elb: ElasticLoadBalancingV2Client;
  readonly iam: IAMClient;
  readonly kms: KMSClient;
  readonly logs: CloudWatchLogsClient;
  readonly route53: Route53Client;
  readonly s3: S3Client;
  readonly secrets: SecretsManagerClient;
  readonly tagging: ResourceGroupsTaggingAPIClient;
}

/** The cluster that a session is for. */
export interface AwsPlace {
  readonly clusterId: string;
  readonly organizationId: string;
  readonly region: string;
}

interface Session {
  readonly clients: AwsClients;
  readonly endsAt: number;
}

export class AwsAccount {
  readonly settings: AwsAccountSettings;
  readonly accountId: string;
  readonly #sessions = new Map<string, Session>();

  /** Throws `ProvisionError` `unconfigured` if the role's ARN is invalid. */
  constructor(settings: AwsAccountSettings) {
    const [, accountId] = ROLE_ARN.exec(settings.roleArn) ?? [];
    if (accountId === undefined) {
      const message = `MILLRACE_AWS_ROLE_ARN is not the ARN of a role: ${settings.roleArn}`;
      throw new ProvisionError("unconfigured", message);
    }
    this.settings = settings;
    this.accountId = accountId;
  }

  /** How Terraform gets its rights, and where it finds AWS. */
  synthRun(place: AwsPlace): SynthRun {
    const { endpoint, without, providerVersion } = this.settings;
    return {
      providerVersion,
      ...(endpoint === undefined ? {} : { endpoint }),
      ...(without === undefined ? {} : { without }),
      assumeRole: this.#role(place),
    };
  }

  /** Clients of a session limited to this cluster. Throws `ProvisionError` `auth`. */
  async clients(place: AwsPlace): Promise<AwsClients> {
    const key = `${place.clusterId} ${place.region}`;
    const known = this.#sessions.get(key);
    if (known && known.endsAt - Date.now() > SESSION_REST_MS) return known.clients;
    const { credentials, endsAt } = await this.#assume(place);
    const clients = this.#clientsWith(place.region, credentials);
    const oldest = this.#sessions.keys().next();
    if (this.#sessions.size >= SESSIONS_MAX && !oldest.done) this.#sessions.delete(oldest.value);
    this.#sessions.set(key, { clients, endsAt });
    return clients;
  }

  #role({ clusterId, organizationId }: AwsPlace): AssumeRole {
    const { prefix } = clusterNames(clusterId, this.accountId);
    return {
      roleArn: this.settings.roleArn,
      externalId: externalIdOf(this.settings.externalId, organizationId),
      sessionPolicy: sessionPolicy({ clusterId, organizationId, prefix }),
      durationSeconds: SESSION_SECONDS,
    };
  }

  async #assume(place: AwsPlace) {
    const role = this.#role(place);
    const sts = new STSClient(this.#clientOptions(place.region, this.settings.credentials));
    try {
      const command = new AssumeRoleCommand({
        RoleArn: role.roleArn,
        ExternalId: role.externalId,
        Policy: role.sessionPolicy,
        DurationSeconds: role.durationSeconds,
        RoleSessionName: "millrace",
      });
      const { Credentials: keys } = await sts.send(command);
      if (!keys?.AccessKeyId || !keys.SecretAccessKey) throw new Error("STS gave no credentials");
      const credentials: AwsCredentials = {
        accessKeyId: keys.AccessKeyId,
        secretAccessKey: keys.SecretAccessKey,
        sessionToken: keys.SessionToken,
      };
      return { credentials, endsAt: keys.Expiration?.getTime() ?? Date.now() };
    } catch (cause) {
      const detail = detailOfAws(cause);
      if (classOfAws(cause) === "throttled") {
        throw new ProvisionError("throttled", "AWS does not answer in time", { cause, detail });
      }
      const message = `the role ${role.roleArn} cannot be assumed: does it trust this installation with this tenant's external id?`;
      throw new ProvisionError("auth", message, { cause, detail });
    } finally {
      sts.destroy();
    }
  }

  #clientsWith(region: string, credentials: AwsCredentials): AwsClients {
    const options = this.#clientOptions(region, credentials);
    return {
      autoScaling: new AutoScalingClient(options),
      ec2: new EC2Client(options),
      elb: new ElasticLoadBalancingV2Client(options),
      iam: new IAMClient(options),
      kms: new KMSClient(options),
      logs: new CloudWatchLogsClient(options),
      route53: new Route53Client(options),
      s3: new S3Client({ ...options, forcePathStyle: this.settings.endpoint !== undefined }),
      secrets: new SecretsManagerClient(options),
      tagging: new ResourceGroupsTaggingAPIClient(options),
    };
  }

  #clientOptions(region: string, credentials: AwsCredentials | undefined) {
    const { endpoint, requestMsMax: requestTimeout = REQUEST_MS_MAX } = this.settings;
    // An emulator accepts any keys and must not get the environment's.
    const emulated =
      endpoint === undefined ? undefined : { accessKeyId: "a", secretAccessKey: "a" };
    const keys = credentials ?? emulated;
    return {
      region,
      maxAttempts: 5,
      requestHandler: {
        connectionTimeout: CONNECT_MS_MAX,
        requestTimeout,
        throwOnRequestTimeout: true,
        socketTimeout: requestTimeout,
      },
      ...(endpoint === undefined ? {} : { endpoint }),
      ...(keys === undefined ? {} : { credentials: withoutUndefined(keys) }),
    };
  }
}

/** The external id that a tenant's role requires, so that only this tenant's operations can assume it. */
export function externalIdOf(base: string, organizationId: string): string {
  const digest = createHmac("sha256", base).update(organizationId).digest("hex");
  return `millrace-${digest.slice(0, 40)}`;
}

function withoutUndefined({ accessKeyId, secretAccessKey, sessionToken }: AwsCredentials) {
  return { accessKeyId, secretAccessKey, ...(sessionToken ? { sessionToken } : {}) };
}
