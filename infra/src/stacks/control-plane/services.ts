import type { TerraformStack } from "cdktn";
import {
  FargateService,
  type TaskSurroundings,
} from "../../constructs/fargate-service/fargate-service.ts";
import type { FrontDoor } from "../../constructs/front-door/front-door.ts";
import type { Firewall } from "../../constructs/network/firewall.ts";
import type { WorkFolder } from "../../constructs/work-folder/work-folder.ts";
import { PROVISIONER_ROLE } from "./names.ts";
import type { ControlPlaneImages, ControlPlaneSpec } from "./spec.ts";

export const API_PORT = 4000;
export const CONSOLE_PORT = 3000;

export interface ServicesProps {
  readonly where: TaskSurroundings;
  readonly apiRoleArn: string;
  readonly workerRoleArn: string;
  readonly consoleRoleArn: string;
  readonly databaseUrlSecretArn: string;
  readonly sessionSecretArn: string;
  /** Secret that the first operator's credentials are put into, once. */
  readonly firstAccountArn: string;
  readonly door: FrontDoor;
  readonly folder: WorkFolder;
  readonly artefact: { readonly bucket: string; readonly key: string };
  readonly clusterBoundaryArn: string;
}

const HOME = "/var/lib/millrace";
/** Each task of API and console serves many; two, so that one may be replaced. */
const SERVING_TASKS = 2;

/** Console, API and worker. Answers their firewalls. */
export function addServices(
  stack: TerraformStack,
  spec: ControlPlaneSpec,
  props: ServicesProps,
): { api: Firewall; console: Firewall; worker: Firewall } {
  const images = spec.images as ControlPlaneImages;
  const { where, door, folder } = props;
  const url = `https://${spec.domainName}`;
  const home = { fileSystemId: folder.fileSystemId, accessPointId: folder.accessPointId };
  const migrate = { name: "migrate", command: ["node", "packages/db/tools/migrate.ts"] };
  const firstAccount = {
    name: "first-account",
    command: ["node", "packages/provisioner/tools/first-account.ts"],
  };
  const api = new FargateService(stack, "api", where, {
    name: "api",
    image: images.api,
    before: [migrate, firstAccount],
    cpu: 1024,
    memoryMib: 2048,
    taskRoleArn: props.apiRoleArn,
    environment: {
      ...common(spec, props),
      MILLRACE_API_HOST: "0.0.0.0",
      MILLRACE_API_PORT: String(API_PORT),
      MILLRACE_API_URL: url,
      MILLRACE_CONSOLE_URL: url,
      MILLRACE_FIRST_ACCOUNT_ARN: props.firstAccountArn,
    },
    secrets: {
      DATABASE_URL: props.databaseUrlSecretArn,
      MILLRACE_AUTH_SECRET: props.sessionSecretArn,
    },
    port: API_PORT,
    targetGroupArn: door.route({
      name: "api",
      port: API_PORT,
      healthPath: "/healthz",
      paths: ["/v1/*", "/docs", "/docs/*", "/openapi.json"],
    }),
    home,
    tasks: SERVING_TASKS,
  });
  const console_ = new FargateService(stack, "console", where, {
    name: "console",
    image: images.console,
    cpu: 512,
    memoryMib: 1024,
    taskRoleArn: props.consoleRoleArn,
    environment: {
      NODE_ENV: "production",
      NEXT_TELEMETRY_DISABLED: "1",
      HOSTNAME: "0.0.0.0",
      PORT: String(CONSOLE_PORT),
      MILLRACE_API_URL: `http://api:${API_PORT}`,
    },
    secrets: {},
    port: CONSOLE_PORT,
    targetGroupArn: door.fallbackArn,
    tasks: SERVING_TASKS,
  });
  const worker = new FargateService(stack, "worker", where, {
    name: "worker",
    image: images.worker,
    before: [migrate],
    cpu: 2048,
    memoryMib: 4096,
    taskRoleArn: props.workerRoleArn,
    environment: common(spec, props),
    secrets: { DATABASE_URL: props.databaseUrlSecretArn },
    home,
    // Leases keep two workers apart; one at a time spares them waiting for each other's Terraform.
    tasks: 1,
    single: true,
  });
  return { api: api.firewall, console: console_.firewall, worker: worker.firewall };
}

function common(spec: ControlPlaneSpec, props: ServicesProps): Record<string, string> {
  return {
    NODE_ENV: "production",
    CHECKPOINT_DISABLE: "1",
    MILLRACE_HOME: HOME,
    MILLRACE_AWS_ROLE_ARN: `arn:aws:iam::${spec.accountId}:role/${PROVISIONER_ROLE}`,
    MILLRACE_AWS_EXTERNAL_ID: spec.externalId,
    MILLRACE_AWS_ARTEFACT_BUCKET: props.artefact.bucket,
    MILLRACE_AWS_BROKER_ARTEFACT: `${props.artefact.key}#${spec.brokerBuild.sha256}`,
    MILLRACE_AWS_PERMISSIONS_BOUNDARY_ARN: props.clusterBoundaryArn,
    MILLRACE_TERRAFORM_BIN: "/usr/local/bin/terraform",
    MILLRACE_TERRAFORM_MIRROR: "/usr/local/share/terraform/providers",
  };
}
