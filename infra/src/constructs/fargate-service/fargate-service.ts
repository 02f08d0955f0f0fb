import { EcsService } from "@cdktn/provider-aws/lib/ecs-service/index.js";
import { EcsTaskDefinition } from "@cdktn/provider-aws/lib/ecs-task-definition/index.js";
import { Op, TerraformResource, TerraformSelf } from "cdktn";
import { Construct } from "constructs";
import { Firewall } from "../network/firewall.ts";

/** Where the tasks of a service run, the same for all of them. */
export interface TaskSurroundings {
  readonly prefix: string;
  readonly region: string;
  readonly clusterArn: string;
  readonly vpcId: string;
  readonly subnetIds: readonly string[];
  readonly logGroup: string;
  readonly namespaceArn: string;
  readonly executionRoleArn: string;
}

interface Folder {
  readonly fileSystemId: string;
  readonly accessPointId: string;
}

/** A port that a task listens on. */
export interface ServicePort {
  readonly name: string;
  readonly port: number;
  /**
   * Other services reach it by its name, through Service Connect: whole requests, each with a time-out of 15
   * seconds, or connections, which may be silent for an hour. Absent: only a load balancer does.
   */
  readonly connect?: "http" | "tcp";
  readonly targetGroupArn?: string;
}

/** A program that a task runs once, with what the service has and more of its own. */
interface Beforehand {
  readonly name: string;
  readonly command: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  /** Name of the variable → ARN of its secret. */
  readonly secrets?: Readonly<Record<string, string>>;
}

export interface FargateServiceProps {
  readonly name: string;
  /** By digest. */
  readonly image: string;
  /** Absent: the image's own. */
  readonly command?: readonly string[];
  /** Run to their ends, one after the other, before the service starts: migrations. */
  readonly before?: readonly Beforehand[];
  readonly cpu: number;
  readonly memoryMib: number;
  readonly taskRoleArn: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Name of the variable → ARN of its secret. */
  readonly secrets: Readonly<Record<string, string>>;
  readonly ports?: readonly ServicePort[];
  readonly home?: Folder;
  /** Tasks that run at a time; for `single` an old one ends before its successor starts. */
  readonly tasks: number;
  readonly single?: true;
}

const HOME = "/var/lib/millrace";
const VOLUME = "home";
const SCRATCH = "tmp";
/** Fargate's upper bound between SIGTERM and SIGKILL. */
const STOP_SECONDS = 120;
const NICE_START_SECONDS = 120;
/**
 * A start fails after three tasks that fail. A change also has to end the tasks before, which may be protected for
 * two hours (the worker's RENEWALS_MAX), and to start them again where it fails.
 */
const STEADY = { create: "20m", update: "160m" };

/** One program of the control plane, kept running on Fargate. */
export class FargateService extends Construct {
  readonly firewall: Firewall;
  readonly serviceName: string;
  readonly #service: EcsService;

  constructor(scope: Construct, id: string, where: TaskSurroundings, props: FargateServiceProps) {
    super(scope, id);
    this.serviceName = props.name;
    this.firewall = new Firewall(this, "firewall", {
      name: `${where.prefix}-${props.name}`,
      description: `Tasks of the control plane's ${props.name}`,
      vpcId: where.vpcId,
    });
    const ports = props.ports ?? [];
    const task = new EcsTaskDefinition(this, "task", {
      family: `${where.prefix}-${props.name}`,
      requiresCompatibilities: ["FARGATE"],
      networkMode: "awsvpc",
      cpu: String(props.cpu),
      memory: String(props.memoryMib),
      runtimePlatform: { cpuArchitecture: "ARM64", operatingSystemFamily: "LINUX" },
      executionRoleArn: where.executionRoleArn,
      taskRoleArn: props.taskRoleArn,
      containerDefinitions: JSON.stringify(containers(where, props)),
      volume: volumes(props),
      // ECS goes back to a revision only while it is active.
      skipDestroy: true,
    });
    this.#service = new EcsService(this, "service", {
      name: props.name,
      cluster: where.clusterArn,
      taskDefinition: task.arn,
      desiredCount: props.tasks,
      launchType: "FARGATE",
      platformVersion: "LATEST",
      propagateTags: "SERVICE",
      enableEcsManagedTags: true,
      deploymentMinimumHealthyPercent: props.single === true ? 0 : 100,
      deploymentMaximumPercent: props.single === true ? 100 : 200,
      deploymentCircuitBreaker: { enable: true, rollback: true },
      waitForSteadyState: true,
      timeouts: STEADY,
      // A service that went back to the version before is steady, too.
      lifecycle: {
        postcondition: [
          {
            condition: Op.eq(TerraformSelf.getString("task_definition"), task.arn),
            errorMessage: `The new tasks of ${props.name} failed, and ECS went back to those before. Read ${where.logGroup} in CloudWatch Logs.`,
          },
        ],
      },
      networkConfiguration: {
        subnets: [...where.subnetIds],
        securityGroups: [this.firewall.id],
        assignPublicIp: false,
      },
      serviceConnectConfiguration: {
        enabled: true,
        namespace: where.namespaceArn,
        ...when(
          "service",
          ports.flatMap(({ name, port, connect }) =>
            connect === undefined ? [] : [{ portName: name, clientAlias: { port, dnsName: name } }],
          ),
        ),
      },
      ...balanced(props.name, ports),
    });
  }

  /**
   * Starts the tasks after what they need but the service does not refer to: routes, rules of firewalls, rights.
   * Called once everything is in those constructs.
   */
  startAfter(needs: readonly Construct[]): void {
    this.#service.dependsOn = [this.firewall, ...needs]
      .flatMap((need) => need.node.findAll())
      .filter((part) => TerraformResource.isTerraformResource(part))
      .map((part) => `${part.terraformResourceType}.${part.friendlyUniqueId}`);
  }
}

/** The attribute, where it has elements. */
function when<K extends string, T>(key: K, list: readonly T[]): { [each in K]?: T[] } {
  return list.length === 0 ? {} : ({ [key]: [...list] } as { [each in K]: T[] });
}

function balanced(containerName: string, ports: readonly ServicePort[]) {
  const targets = ports.flatMap(({ port, targetGroupArn }) =>
    targetGroupArn === undefined ? [] : [{ targetGroupArn, containerName, containerPort: port }],
  );
  return {
    ...(targets.length === 0 ? {} : { healthCheckGracePeriodSeconds: NICE_START_SECONDS }),
    ...when("loadBalancer", targets),
  };
}

function volumes(props: FargateServiceProps) {
  const scratch = { name: SCRATCH };
  if (props.home === undefined) return [scratch];
  const { fileSystemId, accessPointId } = props.home;
  return [
    scratch,
    {
      name: VOLUME,
      efsVolumeConfiguration: {
        fileSystemId,
        transitEncryption: "ENABLED",
        authorizationConfig: { accessPointId, iam: "ENABLED" },
      },
    },
  ];
}

function containers(where: TaskSurroundings, props: FargateServiceProps): unknown[] {
  const part = (name: string, own: Pick<Beforehand, "environment" | "secrets">) => ({
    name,
    image: props.image,
    readonlyRootFilesystem: true,
    user: "10001:10001",
    linuxParameters: { initProcessEnabled: true },
    environment: Object.entries({ ...props.environment, ...own.environment }).map(
      ([key, value]) => ({ name: key, value }),
    ),
    secrets: Object.entries({ ...props.secrets, ...own.secrets }).map(([key, arn]) => ({
      name: key,
      valueFrom: arn,
    })),
    mountPoints: [
      { sourceVolume: SCRATCH, containerPath: "/tmp", readOnly: false },
      ...(props.home === undefined
        ? []
        : [{ sourceVolume: VOLUME, containerPath: HOME, readOnly: false }]),
    ],
    logConfiguration: {
      logDriver: "awslogs",
      options: {
        "awslogs-group": where.logGroup,
        "awslogs-region": where.region,
        "awslogs-stream-prefix": name,
      },
    },
  });
  const before = props.before ?? [];
  return [
    ...before.map(({ name, command, ...own }, index) => ({
      ...part(name, own),
      essential: false,
      command,
      dependsOn: before
        .slice(0, index)
        .map((earlier) => ({ containerName: earlier.name, condition: "SUCCESS" })),
    })),
    {
      ...part(props.name, {}),
      ...(props.command === undefined ? {} : { command: props.command }),
      essential: true,
      stopTimeout: STOP_SECONDS,
      dependsOn: before.map(({ name }) => ({ containerName: name, condition: "SUCCESS" })),
      portMappings: (props.ports ?? []).map(({ name, port, connect }) => ({
        name,
        containerPort: port,
        hostPort: port,
        protocol: "tcp",
        ...(connect === "http" ? { appProtocol: "http" } : {}),
      })),
    },
  ];
}
