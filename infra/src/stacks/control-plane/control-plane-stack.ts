import { EcsCluster } from "@cdktn/provider-aws/lib/ecs-cluster/index.js";
import { IamPolicy } from "@cdktn/provider-aws/lib/iam-policy/index.js";
import { ServiceDiscoveryHttpNamespace } from "@cdktn/provider-aws/lib/service-discovery-http-namespace/index.js";
import { TerraformOutput, type TerraformStack } from "cdktn";
import { AccessLog } from "../../constructs/access-log/access-log.ts";
import { ArtefactStore } from "../../constructs/artefact-store/artefact-store.ts";
import { DATABASE_PORT, Database } from "../../constructs/database/database.ts";
import { FlowLog } from "../../constructs/flow-log/flow-log.ts";
import { FrontDoor } from "../../constructs/front-door/front-door.ts";
import { ServiceRole } from "../../constructs/identity/service-role.ts";
import { policyText } from "../../constructs/identity/statement.ts";
import { InstallationKey } from "../../constructs/installation-key/installation-key.ts";
import { InternetAccess } from "../../constructs/internet-access/internet-access.ts";
import type { Firewall } from "../../constructs/network/firewall.ts";
import { Network } from "../../constructs/network/network.ts";
import { ControlPlaneAlarms } from "../../constructs/observability/control-plane-alarms.ts";
import { LogGroup } from "../../constructs/observability/log-group.ts";
import { ephemeralVariable, SealedValue } from "../../constructs/sealed-value/sealed-value.ts";
import { NFS_PORT, WorkFolder } from "../../constructs/work-folder/work-folder.ts";
import { MANAGED, MANAGED_TAG } from "../../iam/document.ts";
import { permissionsBoundary } from "../../iam/permissions-boundary.ts";
import { type SynthRun, synthesize } from "../../synth.ts";
import { tagEverything } from "../../tagging.ts";
import { type ControlPlaneNames, controlPlaneNames } from "./names.ts";
import { API_PORT, addServices, CONSOLE_PORT } from "./services.ts";
import { type ControlPlaneSpec, checkControlPlaneSpec } from "./spec.ts";
import {
  boundaryStatements,
  executionStatements,
  firstAccountStatements,
  flowLogStatements,
  type PermittedParts,
  provisioningStatements,
} from "./task-permissions.ts";

/** The Terraform JSON of an installation's control plane. Throws {@link ControlPlaneSpecError}. */
export function synthesizeControlPlane(spec: ControlPlaneSpec, run: SynthRun): string {
  checkControlPlaneSpec(spec);
  const names = controlPlaneNames(spec);
  return synthesize("control-plane", spec.region, run, (stack) => {
    const foundation = addFoundation(stack, spec, names);
    if (spec.stage === "complete") addInstallation(stack, spec, names, foundation);
    tagEverything(stack, {
      "millrace:installation": spec.installation,
      [MANAGED_TAG]: MANAGED,
    });
  });
}

interface Foundation {
  readonly keyArn: string;
  readonly stateKeyArn: string;
  readonly store: ArtefactStore;
  readonly boundaryArn: string;
  readonly clusterBoundaryArn: string;
}

function addFoundation(
  stack: TerraformStack,
  spec: ControlPlaneSpec,
  names: ControlPlaneNames,
): Foundation {
  const { accountId, region } = spec;
  const key = (id: string, description: string) =>
    new InstallationKey(stack, id, {
      name: `${names.prefix}-${id}`,
      description,
      accountId,
      region,
      logGroupPrefix: names.logGroupPrefix,
    }).arn;
  const keyArn = key("data", "Database, secrets, logs, images and broker builds of Millrace");
  const stateKeyArn = key("state", "Working folder of Millrace: Terraform states of clusters");
  const store = new ArtefactStore(stack, "artefacts", {
    bucketName: names.artefactBucket,
    repositoryPrefix: names.prefix,
    images: ["api", "console", "worker"],
    kmsKeyArn: keyArn,
    build: spec.brokerBuild,
  });
  const boundary = (id: string, name: string, description: string, policy: string) =>
    new IamPolicy(stack, id, { name, path: "/millrace/", description, policy }).arn;
  const boundaryArn = boundary(
    "boundary",
    names.boundary,
    "The most that any role of the control plane can do",
    policyText(boundaryStatements(spec, names.logGroupPrefix)),
  );
  const clusterBoundaryArn = boundary(
    "cluster-boundary",
    `${names.prefix}-cluster-boundary`,
    "The most that any role of a cluster in this account can do",
    JSON.stringify(permissionsBoundary({ accountId, artefactBucket: names.artefactBucket })),
  );
  new TerraformOutput(stack, "artefact_bucket", { value: store.bucketName });
  new TerraformOutput(stack, "broker_build_key", { value: store.buildKey });
  new TerraformOutput(stack, "cluster_boundary_arn", { value: clusterBoundaryArn });
  return { keyArn, stateKeyArn, store, boundaryArn, clusterBoundaryArn };
}

function addInstallation(
  stack: TerraformStack,
  spec: ControlPlaneSpec,
  names: ControlPlaneNames,
  foundation: Foundation,
): void {
  const { prefix } = names;
  const { keyArn } = foundation;
  const network = new Network(stack, "network", { prefix, cidr: spec.cidr, zones: spec.zones });
  const { vpcId, subnetIds } = network;
  const internet = new InternetAccess(stack, "internet", {
    prefix,
    vpcId,
    cidr: spec.cidr,
    zones: spec.zones,
    privateRouteTableId: network.routeTableId as string,
  });
  const password = ephemeralVariable(stack, "database_password", "32 random bytes, base64url");
  const sessions = ephemeralVariable(stack, "session_secret", "32 random bytes, base64url");
  const database = new Database(stack, "database", {
    name: prefix,
    vpcId,
    subnetIds,
    instanceClass: spec.databaseClass,
    kmsKeyArn: keyArn,
    password,
    passwordVersion: spec.secretsVersion,
  });
  const sealed = (id: string, description: string, text?: string) =>
    new SealedValue(stack, id, {
      name: `${prefix}/${id}`,
      description,
      kmsKeyArn: keyArn,
      ...(text === undefined ? {} : { value: { text, version: spec.secretsVersion } }),
    }).arn;
  const databaseUrl = sealed("database-url", "How tasks reach PostgreSQL", database.url);
  const sessionSecret = sealed("session-secret", "Signs the console's sessions", sessions);
  const firstAccount = sealed("first-account", "How the first operator signs in");
  const folder = new WorkFolder(stack, "home", {
    name: prefix,
    vpcId,
    subnetIds,
    kmsKeyArn: foundation.stateKeyArn,
  });
  new LogGroup(stack, "logs", { name: names.logGroup, kmsKeyArn: keyArn });
  new LogGroup(stack, "flows", { name: names.flowLogGroup, kmsKeyArn: keyArn });
  const parts: PermittedParts = {
    keyArn,
    secretArns: [databaseUrl, sessionSecret],
    firstAccountArn: firstAccount,
    repositoryArns: foundation.store.repositoryArns,
    logGroup: names.logGroup,
    fileSystemArn: folder.fileSystemArn,
    accessPointArn: folder.accessPointArn,
  };
  const door = addFrontDoor(stack, spec, names, { vpcId, subnetIds: internet.publicSubnetIds });
  const ecs = addEcs(stack, names);
  const role = (id: string, statements: ReturnType<typeof executionStatements>) =>
    new ServiceRole(stack, `role-${id}`, {
      name: `${prefix}-${id}`,
      service: "ecs-tasks.amazonaws.com",
      accountId: spec.accountId,
      permissionsBoundaryArn: foundation.boundaryArn,
      statements,
    }).arn;
  const services = addServices(stack, spec, {
    where: {
      prefix,
      region: spec.region,
      clusterArn: ecs.clusterArn,
      namespaceArn: ecs.namespaceArn,
      vpcId,
      subnetIds,
      logGroup: names.logGroup,
      executionRoleArn: role("execution", executionStatements(spec, parts)),
    },
    apiRoleArn: role("api", [
      ...provisioningStatements(parts),
      ...firstAccountStatements(spec, parts),
    ]),
    workerRoleArn: role("worker", provisioningStatements(parts)),
    consoleRoleArn: role("console", []),
    databaseUrlSecretArn: databaseUrl,
    sessionSecretArn: sessionSecret,
    firstAccountArn: firstAccount,
    door,
    folder,
    artefact: { bucket: foundation.store.bucketName, key: foundation.store.buildKey },
    clusterBoundaryArn: foundation.clusterBoundaryArn,
  });
  new FlowLog(stack, "flow-log", {
    vpcId,
    logGroupArn: `arn:aws:logs:${spec.region}:${spec.accountId}:log-group:${names.flowLogGroup}`,
    roleArn: new ServiceRole(stack, "role-flow-log", {
      name: `${prefix}-flow-log`,
      service: "vpc-flow-logs.amazonaws.com",
      accountId: spec.accountId,
      permissionsBoundaryArn: foundation.boundaryArn,
      statements: flowLogStatements(spec, names.flowLogGroup),
    }).arn,
  });
  connect(door.firewall, services, database.firewall, folder.firewall);
  new ControlPlaneAlarms(stack, "alarms", {
    prefix,
    databaseIdentifier: database.identifier,
    balancerSuffix: door.suffix,
    ecsCluster: prefix,
    services: ["api", "console", "worker"],
    topicArns: spec.alarmTopicArns,
  });
}

function addEcs(stack: TerraformStack, { prefix }: ControlPlaneNames) {
  const namespace = new ServiceDiscoveryHttpNamespace(stack, "namespace", {
    name: prefix,
    description: "Names by which the control plane's services find each other",
  });
  const cluster = new EcsCluster(stack, "tasks", {
    name: prefix,
    setting: [{ name: "containerInsights", value: "enabled" }],
  });
  return { clusterArn: cluster.arn, namespaceArn: namespace.arn };
}

function addFrontDoor(
  stack: TerraformStack,
  spec: ControlPlaneSpec,
  names: ControlPlaneNames,
  where: { readonly vpcId: string; readonly subnetIds: readonly string[] },
): FrontDoor {
  const log = new AccessLog(stack, "access-log", {
    bucketName: names.accessLogBucket,
    accountId: spec.accountId,
  });
  return new FrontDoor(
    stack,
    "front-door",
    {
      ...where,
      name: names.prefix,
      certificateArn: spec.certificateArn,
      allowedCidrs: spec.allowedCidrs,
      logBucket: log.bucket,
    },
    { name: "console", port: CONSOLE_PORT, healthPath: "/sign-in" },
  );
}

interface Firewalls {
  readonly api: Firewall;
  readonly console: Firewall;
  readonly worker: Firewall;
}

/** Who may speak to whom. What is not here is closed. */
function connect(door: Firewall, tasks: Firewalls, database: Firewall, files: Firewall): void {
  const one = (port: number) => ({ from: port, to: port });
  const link = (id: string, what: string, port: number, from: Firewall, to: Firewall) => {
    from.release(id, what, one(port), { group: to });
    to.admit(id, what, one(port), { group: from });
  };
  link("door-console", "Pages", CONSOLE_PORT, door, tasks.console);
  link("door-api", "REST", API_PORT, door, tasks.api);
  link("console-api", "What pages show", API_PORT, tasks.console, tasks.api);
  for (const [name, task] of Object.entries({ api: tasks.api, worker: tasks.worker })) {
    link(`${name}-database`, "PostgreSQL", DATABASE_PORT, task, database);
    link(`${name}-files`, "Working folder", NFS_PORT, task, files);
  }
  for (const task of Object.values(tasks)) {
    task.release("aws", "AWS's own APIs, in every region", one(443), { cidr: "0.0.0.0/0" });
  }
}
