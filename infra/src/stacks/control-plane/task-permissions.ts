import type { Statement } from "../../constructs/identity/statement.ts";
import { controlPlaneNames, PROVISIONER_ROLE } from "./names.ts";
import type { ControlPlaneSpec } from "./spec.ts";

/** What the parts of the control plane that are needed for permissions are called. */
export interface PermittedParts {
  readonly keyArn: string;
  /** Wraps the keys of clusters' Terraform states. */
  readonly stateKeyArn: string;
  readonly secretArns: readonly string[];
  readonly firstAccountArn: string;
  readonly repositoryArns: readonly string[];
  readonly logGroup: string;
  readonly fileSystemArn: string;
  readonly accessPointArn: string;
}

/** What Fargate itself needs to start a task: its image, its secrets, its log. */
export function executionStatements(spec: ControlPlaneSpec, parts: PermittedParts): Statement[] {
  return [
    {
      Sid: "RegistryToken",
      Effect: "Allow",
      Action: ["ecr:GetAuthorizationToken"],
      Resource: ["*"],
    },
    {
      Sid: "Images",
      Effect: "Allow",
      Action: [
        "ecr:BatchCheckLayerAvailability",
        "ecr:BatchGetImage",
        "ecr:GetDownloadUrlForLayer",
      ],
      Resource: parts.repositoryArns,
    },
    {
      Sid: "Secrets",
      Effect: "Allow",
      Action: ["secretsmanager:GetSecretValue"],
      Resource: parts.secretArns,
    },
    {
      Sid: "Key",
      Effect: "Allow",
      Action: ["kms:Decrypt"],
      Resource: [parts.keyArn],
      Condition: throughSecretsManager(spec),
    },
    logStatement(spec, parts.logGroup),
  ];
}

/** The worker: the working folder, and the roles that tenants' accounts offer. */
export function provisioningStatements(parts: PermittedParts): Statement[] {
  return [
    {
      Sid: "WorkFolder",
      Effect: "Allow",
      Action: ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"],
      Resource: [parts.fileSystemArn],
      Condition: {
        StringEquals: { "elasticfilesystem:AccessPointArn": parts.accessPointArn },
      },
    },
    assumeProvisioner(),
  ];
}

/** The worker seals Terraform states: it alone wraps and unwraps their keys. */
export function sealingStatements(stateKeyArn: string): Statement[] {
  return [
    {
      Sid: "SealStates",
      Effect: "Allow",
      Action: ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt"],
      Resource: [stateKeyArn],
    },
  ];
}

/** The worker protects its own task while it applies a plan; ECS's agent asks in the name of the task's role. */
export function protectionStatement(spec: ControlPlaneSpec): Statement {
  const { region, accountId } = spec;
  const { prefix } = controlPlaneNames(spec);
  return {
    Sid: "ProtectTask",
    Effect: "Allow",
    Action: ["ecs:GetTaskProtection", "ecs:UpdateTaskProtection"],
    Resource: [`arn:aws:ecs:${region}:${accountId}:task/${prefix}/*`],
  };
}

/** The worker stores the first owner's credentials in their secret. */
export function firstAccountStatements(spec: ControlPlaneSpec, parts: PermittedParts): Statement[] {
  return [
    {
      Sid: "FirstAccount",
      Effect: "Allow",
      Action: ["secretsmanager:DescribeSecret", "secretsmanager:PutSecretValue"],
      Resource: [parts.firstAccountArn],
    },
    {
      Sid: "SealFirstAccount",
      Effect: "Allow",
      Action: ["kms:Decrypt", "kms:GenerateDataKey"],
      Resource: [parts.keyArn],
      Condition: throughSecretsManager(spec),
    },
  ];
}

/** VPC flow logs: their own log group, which they look for first. AWS has that call on all groups or none. */
export function flowLogStatements(spec: ControlPlaneSpec, logGroup: string): Statement[] {
  return [logStatement(spec, logGroup), findLogGroupsStatement(spec)];
}

function findLogGroupsStatement({ region, accountId }: ControlPlaneSpec): Statement {
  return {
    Sid: "FindLogGroups",
    Effect: "Allow",
    Action: ["logs:DescribeLogGroups"],
    Resource: [`arn:aws:logs:${region}:${accountId}:log-group:*`],
  };
}

/** The most that any role of the control plane can ever do. */
export function boundaryStatements(
  spec: ControlPlaneSpec,
  logGroupPrefix: string,
  stateKeyArn: string,
): Statement[] {
  const own = (service: string, rest: string) =>
    `arn:aws:${service}:${spec.region}:${spec.accountId}:${rest}`;
  const prefix = `mr-${spec.installation}`;
  return [
    assumeProvisioner(),
    ...sealingStatements(stateKeyArn),
    {
      Sid: "RegistryToken",
      Effect: "Allow",
      Action: ["ecr:GetAuthorizationToken"],
      Resource: ["*"],
    },
    {
      Sid: "Images",
      Effect: "Allow",
      Action: [
        "ecr:BatchCheckLayerAvailability",
        "ecr:BatchGetImage",
        "ecr:GetDownloadUrlForLayer",
      ],
      Resource: [own("ecr", `repository/${prefix}/*`)],
    },
    {
      Sid: "Secrets",
      Effect: "Allow",
      Action: [
        "secretsmanager:DescribeSecret",
        "secretsmanager:GetSecretValue",
        "secretsmanager:PutSecretValue",
      ],
      Resource: [own("secretsmanager", `secret:${prefix}/*`)],
    },
    {
      Sid: "Keys",
      Effect: "Allow",
      Action: ["kms:Decrypt", "kms:GenerateDataKey"],
      Resource: [own("kms", "key/*")],
      Condition: throughSecretsManager(spec),
    },
    {
      Sid: "WorkFolder",
      Effect: "Allow",
      Action: ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"],
      Resource: [own("elasticfilesystem", "file-system/*")],
    },
    logStatement(spec, `${logGroupPrefix}/*`),
    findLogGroupsStatement(spec),
    protectionStatement(spec),
  ];
}

/** Any account's provisioner role, but never without the external id that its trust policy asks for. */
function assumeProvisioner(): Statement {
  return {
    Sid: "Provisioners",
    Effect: "Allow",
    Action: ["sts:AssumeRole"],
    Resource: [`arn:aws:iam::*:role/${PROVISIONER_ROLE}`],
    Condition: { Null: { "sts:ExternalId": "false" } },
  };
}

function logStatement({ region, accountId }: ControlPlaneSpec, logGroup: string): Statement {
  return {
    Sid: "Logs",
    Effect: "Allow",
    Action: ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
    Resource: [`arn:aws:logs:${region}:${accountId}:log-group:${logGroup}:*`],
  };
}

function throughSecretsManager({ region }: ControlPlaneSpec) {
  return { StringEquals: { "kms:ViaService": `secretsmanager.${region}.amazonaws.com` } };
}
