import { EcsCluster } from "@cdktn/provider-aws/lib/ecs-cluster/index.js";
import { IamPolicy } from "@cdktn/provider-aws/lib/iam-policy/index.js";
import { ServiceDiscoveryHttpNamespace } from "@cdktn/provider-aws/lib/service-discovery-http-namespace/index.js";
import { TerraformOutput, type TerraformStack } from "cdktn";
import { AccessLog } from "../../constructs/access-log/access-log.ts";
import { ArtefactStore } from "../../constructs/artefact-store/artefact-store.ts";
import { DATABASE_PORT } from "../../constructs/database/database.ts";
import type { FargateService } from "../../constructs/fargate-service/fargate-service.ts";
import { FlowLog } from "../../constructs/flow-log/flow-log.ts";
import { FrontDoor } from "../../constructs/front-door/front-door.ts";
import { ServiceRole } from "../../constructs/identity/service-role.ts";
import { policyText, type Statement } from "../../constructs/identity/statement.ts";
import { InstallationKey } from "../../constructs/installation-key/installation-key.ts";
import { LinkDoor } from "../../constructs/link-door/link-door.ts";
import type { Firewall } from "../../constructs/network/firewall.ts";
import { ControlPlaneAlarms } from "../../constructs/observability/control-plane-alarms.ts";
import { ProvisionerRole } from "../../constructs/provisioner-role/provisioner-role.ts";
import { NFS_PORT } from "../../constructs/work-folder/work-folder.ts";
import { INSTALLATION_TAG, MANAGED_CONTROL_PLANE, MANAGED_TAG } from "../../iam/document.ts";
import { permissionsBoundary } from "../../iam/permissions-boundary.ts";
import { type SynthRun, synthesize } from "../../synth.ts";
import { tagEverything } from "../../tagging.ts";
import { addDataParts } from "./data-parts.ts";
import {
  type ControlPlaneNames,
  controlPlaneNames,
  linkDomain,
  PROVISIONER_ROLE,
} from "./names.ts";
import {
  API_PORT,
  addServices,
  CONSOLE_PORT,
  GATEWAY_PORT,
  LINK_PORT,
  type ServiceName,
} from "./services.ts";
import { type ControlPlaneSpec, checkControlPlaneSpec } from "./spec.ts";
import {
  boundaryStatements,
  executionStatements,
  firstAccountStatements,
  flowLogStatements,
  type PermittedParts,
  protectionStatement,
  provisioningStatements,
  sealingStatements,
} from "./task-permissions.ts";

/** The Terraform JSON of an installation's control plane. Throws {@link ControlPlaneSpecError}. */
export function synthesizeControlPlane(spec: ControlPlaneSpec, run: SynthRun): string {
  checkControlPlaneSpec(spec);
  const names = controlPlaneNames(spec);
  return synthesize("control-plane", spec, run, (stack) => {
    const foundation = addFoundation(stack, spec, names);
    if (spec.stage === "complete") addInstallation(stack, spec, names, foundation);
    tagEverything(stack, {
      [INSTALLATION_TAG]: spec.installation,
      [MANAGED_TAG]: MANAGED_CONTROL_PLANE,
    });
  });
}

/** Addresses of the load balancer's ingress rules, which the operator asked for. */
export function publicIngress({ allowedCidrs }: ControlPlaneSpec): string[] {
  return allowedCidrs.flatMap((_, index) =>
    ["http", "https"].map(
      (scheme) => `aws_vpc_security_group_ingress_rule.front-door_firewall_in-${scheme}-${index}`,
    ),
  );
}

/** Tells the next run of the bootstrap which version the secrets have. */
export const SECRETS_VERSION_OUTPUT = "secrets_version";

interface Foundation {
  readonly keyArn: string;
  readonly stateKeyArn: string;
  readonly store: ArtefactStore;
  readonly boundaryArn: string;
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
    policyText(boundaryStatements(spec, names.logGroupPrefix, stateKeyArn)),
  );
  const clusterBoundaryArn = boundary(
    "cluster-boundary",
    names.clusterBoundary,
    "The most that any role of a cluster in this account can do",
    JSON.stringify(permissionsBoundary({ accountId, artefactBucket: names.artefactBucket })),
  );
  new TerraformOutput(stack, "artefact_bucket", { value: store.bucketName });
  new TerraformOutput(stack, "broker_build_key", { value: store.buildKey });
  new TerraformOutput(stack, "cluster_boundary_arn", { value: clusterBoundaryArn });
  return { keyArn, stateKeyArn, store, boundaryArn };
}

function addInstallation(
  stack: TerraformStack,
  spec: ControlPlaneSpec,
  names: ControlPlaneNames,
  foundation: Foundation,
): void {
  const { prefix } = names;
  const { keyArn } = foundation;
  const kept = addDataParts(stack, spec, { names, keyArn, stateKeyArn: foundation.stateKeyArn });
  const { secrets, folder, network } = kept;
  const where = { vpcId: network.vpcId, subnetIds: network.subnetIds };
  const parts: PermittedParts = {
    keyArn,
    stateKeyArn: foundation.stateKeyArn,
    secretArns: [
      secrets.databaseUrl.arn,
      secrets.apiDatabaseUrl.arn,
      secrets.workerDatabaseUrl.arn,
      secrets.gatewayDatabaseUrl.arn,
      secrets.gatewayToken.arn,
      secrets.session.arn,
      secrets.externalId.arn,
    ],
    firstAccountArn: secrets.firstAccount.arn,
    repositoryArns: foundation.store.repositoryArns,
    logGroup: names.logGroup,
    fileSystemArn: folder.fileSystemArn,
    accessPointArn: folder.accessPointArn,
  };
  const door = addFrontDoor(stack, spec, names, {
    ...where,
    subnetIds: kept.internet.publicSubnetIds,
  });
  const links = new LinkDoor(stack, "links", {
    ...where,
    name: `${prefix}-links`,
    certificateArn: spec.certificateArn,
    port: LINK_PORT,
    // Clusters stand in this account.
    allowedPrincipals: [`arn:aws:iam::${spec.accountId}:root`],
  });
  const roles = addRoles(stack, spec, names, foundation, parts);
  folder.admit(roles.worker.arn);
  const services = addServices(stack, spec, {
    where: {
      ...addEcs(stack, names),
      ...where,
      prefix,
      region: spec.region,
      logGroup: names.logGroup,
      executionRoleArn: roles.execution.arn,
    },
    roles,
    secrets,
    door,
    links,
    folder,
    artefact: {
      bucket: foundation.store.bucketName,
      key: foundation.store.buildKey,
      kmsKeyArn: keyArn,
    },
    clusterBoundaryArn: names.clusterBoundaryArn,
    stateKeyArn: foundation.stateKeyArn,
  });
  new FlowLog(stack, "flow-log", {
    vpcId: network.vpcId,
    logGroupArn: `arn:aws:logs:${spec.region}:${spec.accountId}:log-group:${names.flowLogGroup}`,
    roleArn: roles.flowLog.arn,
  });
  connect(
    { door: door.firewall, links: links.firewall },
    services,
    kept.database.firewall,
    folder.firewall,
  );
  const { database, internet, logs } = kept;
  const needs = [network, internet, door, links, database, folder, logs, ...Object.values(roles)];
  services.gateway.startAfter(needs);
  // Tasks cannot resolve a name of Service Connect that is newer than they are.
  services.api.startAfter([...needs, services.gateway]);
  services.worker.startAfter([...needs, services.gateway]);
  services.console.startAfter([...needs, services.api]);
  new ControlPlaneAlarms(stack, "alarms", {
    prefix,
    databaseIdentifier: kept.database.identifier,
    balancerSuffix: door.suffix,
    ecsCluster: prefix,
    services: ["api", "console", "gateway", "worker"],
    topicArns: spec.alarmTopicArns,
  });
  new TerraformOutput(stack, "front_door", { value: door.dnsName });
  new TerraformOutput(stack, "first_account", { value: secrets.firstAccount.arn });
  new TerraformOutput(stack, SECRETS_VERSION_OUTPUT, { value: spec.secretsVersion });
}

function addRoles(
  stack: TerraformStack,
  spec: ControlPlaneSpec,
  names: ControlPlaneNames,
  foundation: Foundation,
  parts: PermittedParts,
) {
  const { accountId } = spec;
  const role = (id: string, service: string, statements: Statement[]) =>
    new ServiceRole(stack, `role-${id}`, {
      name: `${names.prefix}-${id}`,
      service,
      accountId,
      permissionsBoundaryArn: foundation.boundaryArn,
      statements,
    });
  const task = (id: string, statements: Statement[]) =>
    role(id, "ecs-tasks.amazonaws.com", statements);
  const worker = task("worker", [
    ...provisioningStatements(parts),
    ...firstAccountStatements(spec, parts),
    ...sealingStatements(parts.stateKeyArn),
    protectionStatement(spec),
  ]);
  new ProvisionerRole(stack, "provisioner", {
    role: PROVISIONER_ROLE,
    prefix: names.prefix,
    accountId,
    permissionsBoundaryArn: names.clusterBoundaryArn,
    linkDomain: linkDomain(spec),
    principalArns: [worker.arn],
    // The installation's own account takes each of its organizations.
    externalId: "millrace-*",
  });
  return {
    // Plans are made without an account, and the rest of what it does is in PostgreSQL.
    api: task("api", []),
    worker,
    console: task("console", []),
    gateway: task("gateway", []),
    execution: task("execution", executionStatements(spec, parts)),
    flowLog: role(
      "flow-log",
      "vpc-flow-logs.amazonaws.com",
      flowLogStatements(spec, names.flowLogGroup),
    ),
  };
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

/** Who may speak to whom. What is not here is closed. */
function connect(
  { door, links }: Readonly<Record<"door" | "links", Firewall>>,
  services: Readonly<Record<ServiceName, FargateService>>,
  database: Firewall,
  files: Firewall,
): void {
  const tasks = {
    api: services.api.firewall,
    console: services.console.firewall,
    gateway: services.gateway.firewall,
    worker: services.worker.firewall,
  };
  const one = (port: number) => ({ from: port, to: port });
  const link = (id: string, what: string, port: number, from: Firewall, to: Firewall) => {
    from.release(id, what, one(port), { group: to });
    to.admit(id, what, one(port), { group: from });
  };
  link("door-console", "Pages", CONSOLE_PORT, door, tasks.console);
  link("door-api", "REST", API_PORT, door, tasks.api);
  link("console-api", "What pages show", API_PORT, tasks.console, tasks.api);
  link("links-gateway", "Brokers' links", LINK_PORT, links, tasks.gateway);
  const { api, worker, gateway } = tasks;
  for (const [name, task] of Object.entries({ api, worker, gateway })) {
    link(`${name}-database`, "PostgreSQL", DATABASE_PORT, task, database);
    link(`${name}-gateway`, "Requests to brokers", GATEWAY_PORT, task, gateway);
  }
  link("worker-files", "Working folder", NFS_PORT, tasks.worker, files);
  for (const task of Object.values(tasks)) {
    task.release("aws", "AWS's own APIs, in every region", one(443), { cidr: "0.0.0.0/0" });
  }
}
