import type { TerraformStack } from "cdktn";
import { RDS_AUTHORITIES } from "../../constructs/database/database.ts";
import {
  FargateService,
  type TaskSurroundings,
} from "../../constructs/fargate-service/fargate-service.ts";
import type { FrontDoor } from "../../constructs/front-door/front-door.ts";
import type { ServiceRole } from "../../constructs/identity/service-role.ts";
import type { LinkDoor } from "../../constructs/link-door/link-door.ts";
import type { WorkFolder } from "../../constructs/work-folder/work-folder.ts";
import type { ControlPlaneSecrets } from "./data-parts.ts";
import { linkDomain, PROVISIONER_ROLE } from "./names.ts";
import type { ControlPlaneImages, ControlPlaneSpec } from "./spec.ts";

export const API_PORT = 4000;
export const CONSOLE_PORT = 3000;
/** Of the gateways: where brokers' links end, and where API, worker and other gateways send requests. */
export const LINK_PORT = 4100;
export const GATEWAY_PORT = 4101;

export type ServiceName = "api" | "console" | "gateway" | "worker";

export interface ServicesProps {
  readonly where: TaskSurroundings;
  readonly roles: Readonly<Record<ServiceName, ServiceRole>>;
  readonly secrets: ControlPlaneSecrets;
  readonly door: FrontDoor;
  readonly links: LinkDoor;
  readonly folder: WorkFolder;
  readonly artefact: {
    readonly bucket: string;
    readonly key: string;
    readonly kmsKeyArn: string;
  };
  readonly clusterBoundaryArn: string;
  readonly stateKeyArn: string;
}

const HOME = "/var/lib/millrace";
/** Each task of API, console and gateway serves many; two, so that one may be replaced. */
const SERVING_TASKS = 2;

/** The end of a secret's `<ARN>:<JSON key>:<version stage>:<version id>`, as ECS takes it. */
const PREVIOUS_VERSION = ":AWSPREVIOUS:";
const MIGRATE = ["node", "packages/db/tools/migrate.ts"];
const FIRST_ACCOUNT = ["node", "packages/provisioner/tools/first-account.ts"];

/** Console, API, worker and gateways. */
export function addServices(
  stack: TerraformStack,
  spec: ControlPlaneSpec,
  props: ServicesProps,
): Record<ServiceName, FargateService> {
  return {
    api: addApi(stack, spec, props),
    console: addConsole(stack, spec, props),
    gateway: addGateway(stack, spec, props),
    worker: addWorker(stack, spec, props),
  };
}

function addApi(stack: TerraformStack, spec: ControlPlaneSpec, props: ServicesProps) {
  const url = `https://${spec.domainName}`;
  return new FargateService(stack, "api", props.where, {
    name: "api",
    image: (spec.images as ControlPlaneImages).api,
    before: [migrate(props.secrets)],
    cpu: 1024,
    memoryMib: 2048,
    taskRoleArn: props.roles.api.arn,
    environment: {
      ...planning(spec),
      ...GATEWAY,
      MILLRACE_API_HOST: "0.0.0.0",
      MILLRACE_API_PORT: String(API_PORT),
      MILLRACE_API_URL: url,
      MILLRACE_CONSOLE_URL: url,
      // The load balancer and the console, which have no fixed addresses; firewalls let nobody else in. And
      // Service Connect's proxy, which passes on from within the task.
      MILLRACE_TRUSTED_PROXIES: `${spec.cidr},127.0.0.0/8,::1`,
    },
    secrets: {
      DATABASE_URL: props.secrets.apiDatabaseUrl.filledArn,
      MILLRACE_GATEWAY_TOKEN: props.secrets.gatewayToken.filledArn,
      MILLRACE_AUTH_SECRET: props.secrets.session.filledArn,
      // Decrypts what it encrypted until the API has encrypted that again. The first version has no previous one.
      ...(spec.secretsVersion > 1 && {
        MILLRACE_AUTH_SECRETS_REPLACED: `${props.secrets.session.filledArn}:${PREVIOUS_VERSION}`,
      }),
    },
    ports: [
      {
        name: "api",
        port: API_PORT,
        connect: "http",
        targetGroupArn: props.door.route({
          name: "api",
          port: API_PORT,
          healthPath: "/healthz",
          paths: ["/v1/*", "/docs", "/docs/*"],
        }),
      },
    ],
    tasks: SERVING_TASKS,
  });
}

function addConsole(stack: TerraformStack, spec: ControlPlaneSpec, props: ServicesProps) {
  return new FargateService(stack, "console", props.where, {
    name: "console",
    image: (spec.images as ControlPlaneImages).console,
    cpu: 512,
    memoryMib: 1024,
    taskRoleArn: props.roles.console.arn,
    environment: {
      NODE_ENV: "production",
      NEXT_TELEMETRY_DISABLED: "1",
      HOSTNAME: "0.0.0.0",
      PORT: String(CONSOLE_PORT),
      MILLRACE_API_URL: `http://api:${API_PORT}`,
      MILLRACE_CONSOLE_URL: `https://${spec.domainName}`,
    },
    secrets: {},
    ports: [
      {
        name: "console",
        port: CONSOLE_PORT,
        connect: "http",
        targetGroupArn: props.door.fallbackArn,
      },
    ],
    tasks: SERVING_TASKS,
  });
}

function addGateway(stack: TerraformStack, spec: ControlPlaneSpec, props: ServicesProps) {
  return new FargateService(stack, "gateway", props.where, {
    name: "gateway",
    // Every program but the console is in it.
    image: (spec.images as ControlPlaneImages).api,
    command: ["node", "apps/gateway/src/main.ts"],
    before: [migrate(props.secrets)],
    cpu: 512,
    memoryMib: 1024,
    taskRoleArn: props.roles.gateway.arn,
    // Other gateways reach a task by its own address, which it finds out by itself.
    environment: {
      NODE_ENV: "production",
      MILLRACE_GATEWAY_LISTEN: `0.0.0.0:${LINK_PORT}`,
      // The load balancer ends TLS, and nobody else reaches the port.
      MILLRACE_GATEWAY_TLS_FILE: "none",
      MILLRACE_GATEWAY_INTERNAL_LISTEN: `0.0.0.0:${GATEWAY_PORT}`,
      // Secrets are read at start only: tasks of another version are replaced.
      MILLRACE_SECRETS_VERSION: String(spec.secretsVersion),
    },
    secrets: {
      DATABASE_URL: props.secrets.gatewayDatabaseUrl.filledArn,
      MILLRACE_GATEWAY_TOKEN: props.secrets.gatewayToken.filledArn,
    },
    ports: [
      { name: "link", port: LINK_PORT, targetGroupArn: props.links.targetGroupArn },
      // Streams of records are longer than the time-out of requests.
      { name: "gateway", port: GATEWAY_PORT, connect: "tcp" },
    ],
    tasks: SERVING_TASKS,
  });
}

function addWorker(stack: TerraformStack, spec: ControlPlaneSpec, props: ServicesProps) {
  return new FargateService(stack, "worker", props.where, {
    name: "worker",
    image: (spec.images as ControlPlaneImages).worker,
    before: [migrate(props.secrets), firstAccount(spec, props.secrets)],
    cpu: 2048,
    memoryMib: 4096,
    taskRoleArn: props.roles.worker.arn,
    environment: {
      ...planning(spec),
      ...GATEWAY,
      MILLRACE_HOME: HOME,
      MILLRACE_AWS_ARTEFACT_BUCKET: props.artefact.bucket,
      MILLRACE_AWS_BROKER_ARTEFACT: `${props.artefact.key}#${spec.brokerBuild.sha256}`,
      MILLRACE_AWS_ARTEFACT_KMS_KEY_ARN: props.artefact.kmsKeyArn,
      MILLRACE_AWS_AMI_ID: spec.amiId,
      MILLRACE_AWS_PERMISSIONS_BOUNDARY_ARN: props.clusterBoundaryArn,
      MILLRACE_AWS_DATABASE_CA: RDS_AUTHORITIES,
      MILLRACE_AWS_STATE_KEY_ARN: props.stateKeyArn,
      MILLRACE_AWS_LINK_SERVICE: props.links.serviceName,
      MILLRACE_AWS_LINK_DOMAIN: linkDomain(spec),
      MILLRACE_AWS_LINK_ZONES: spec.zones.join(","),
      ...(spec.alarmTopicArns.length > 0 && {
        MILLRACE_AWS_ALARM_TOPICS: spec.alarmTopicArns.join(","),
      }),
    },
    secrets: {
      DATABASE_URL: props.secrets.workerDatabaseUrl.filledArn,
      MILLRACE_GATEWAY_TOKEN: props.secrets.gatewayToken.filledArn,
      MILLRACE_AWS_EXTERNAL_ID: props.secrets.externalId.filledArn,
    },
    home: props.folder,
    // Leases keep two workers apart; one at a time spares them waiting for each other's Terraform.
    tasks: 1,
    single: true,
  });
}

/**
 * Makes the first owner's account. Before the worker, because there is one worker at a time: of
 * two that did it at once, one would change the password that the other had put into the secret.
 */
function firstAccount(spec: ControlPlaneSpec, secrets: ControlPlaneSecrets) {
  const url = `https://${spec.domainName}`;
  return {
    name: "first-account",
    command: FIRST_ACCOUNT,
    environment: {
      MILLRACE_API_URL: url,
      MILLRACE_CONSOLE_URL: url,
      MILLRACE_FIRST_ACCOUNT_ARN: secrets.firstAccount.arn,
    },
    secrets: {
      DATABASE_URL: secrets.apiDatabaseUrl.filledArn,
      MILLRACE_AUTH_SECRET: secrets.session.filledArn,
    },
  };
}

/** As the owner of the tables; it gives the roles of API, worker and gateway their passwords. */
function migrate(secrets: ControlPlaneSecrets) {
  return {
    name: "migrate",
    command: MIGRATE,
    secrets: {
      DATABASE_URL: secrets.databaseUrl.filledArn,
      MILLRACE_API_DATABASE_URL: secrets.apiDatabaseUrl.filledArn,
      MILLRACE_WORKER_DATABASE_URL: secrets.workerDatabaseUrl.filledArn,
      MILLRACE_GATEWAY_DATABASE_URL: secrets.gatewayDatabaseUrl.filledArn,
    },
  };
}

/** How API and worker reach brokers. */
const GATEWAY = { MILLRACE_GATEWAY_URL: `http://gateway:${GATEWAY_PORT}` };

/** What the programs that plan need, and what makes them restart. */
function planning(spec: ControlPlaneSpec): Record<string, string> {
  return {
    NODE_ENV: "production",
    CHECKPOINT_DISABLE: "1",
    // A task has no place for brokers.
    MILLRACE_LOCAL_CLUSTERS: "0",
    // Says whether there is an account to create in. Only the worker can take the role.
    MILLRACE_AWS_ROLE_ARN: `arn:aws:iam::${spec.accountId}:role/${PROVISIONER_ROLE}`,
    // Bucket, key and gateway endpoint are of one region, so clusters' slots must be, too.
    MILLRACE_AWS_REGION: spec.region,
    MILLRACE_TERRAFORM_BIN: "/usr/local/bin/terraform",
    MILLRACE_TERRAFORM_MIRROR: "/usr/local/share/terraform/providers",
    // Secrets are read at start only: tasks of another version are replaced.
    MILLRACE_SECRETS_VERSION: String(spec.secretsVersion),
  };
}
