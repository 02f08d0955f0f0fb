import type { TerraformStack } from "cdktn";
import { Database } from "../../constructs/database/database.ts";
import { InternetAccess } from "../../constructs/internet-access/internet-access.ts";
import { Network } from "../../constructs/network/network.ts";
import { LogGroup } from "../../constructs/observability/log-group.ts";
import { ephemeralVariable, SealedValue } from "../../constructs/sealed-value/sealed-value.ts";
import { WorkFolder } from "../../constructs/work-folder/work-folder.ts";
import type { ControlPlaneNames } from "./names.ts";
import type { ControlPlaneSpec } from "./spec.ts";

export interface ControlPlaneSecrets {
  /** The owner's: for migrations. */
  readonly databaseUrl: SealedValue;
  readonly apiDatabaseUrl: SealedValue;
  readonly workerDatabaseUrl: SealedValue;
  readonly gatewayDatabaseUrl: SealedValue;
  /** API and worker show it to the gateways, and these to each other. */
  readonly gatewayToken: SealedValue;
  readonly session: SealedValue;
  readonly externalId: SealedValue;
  readonly firstAccount: SealedValue;
}

interface DataPartsProps {
  readonly names: ControlPlaneNames;
  readonly keyArn: string;
  readonly stateKeyArn: string;
}

/** What organizations' external ids are made from must never change: their accounts know them. */
const EXTERNAL_ID_VERSION = 1;

/** The network, and in it everything that remembers: database, secrets, working folder, logs. */
export function addDataParts(
  stack: TerraformStack,
  spec: ControlPlaneSpec,
  { names, keyArn, stateKeyArn }: DataPartsProps,
) {
  const { prefix } = names;
  const { cidr, zones } = spec;
  const network = new Network(stack, "network", { prefix, cidr, zones });
  const { vpcId, subnetIds } = network;
  const internet = new InternetAccess(stack, "internet", {
    prefix,
    vpcId,
    cidr,
    zones,
    privateRouteTableId: network.routeTableId as string,
  });
  const password = ephemeralVariable(stack, "database_password", "32 random bytes, base64url");
  const database = new Database(stack, "database", {
    name: prefix,
    vpcId,
    subnetIds,
    instanceClass: spec.databaseClass,
    kmsKeyArn: keyArn,
    password,
    passwordVersion: spec.secretsVersion,
  });
  const secrets = addSecrets(stack, spec, prefix, keyArn, database);
  const folder = new WorkFolder(stack, "home", {
    name: prefix,
    vpcId,
    subnetIds,
    kmsKeyArn: stateKeyArn,
  });
  const logs = new LogGroup(stack, "logs", { name: names.logGroup, kmsKeyArn: keyArn });
  new LogGroup(stack, "flows", { name: names.flowLogGroup, kmsKeyArn: keyArn });
  return { network, internet, database, secrets, folder, logs };
}

function addSecrets(
  stack: TerraformStack,
  spec: ControlPlaneSpec,
  prefix: string,
  kmsKeyArn: string,
  database: Database,
): ControlPlaneSecrets {
  const variable = (name: string) => ephemeralVariable(stack, name, "32 random bytes, base64url");
  const sealed = (
    id: string,
    description: string,
    value?: { readonly text: string; readonly version: number },
  ) =>
    new SealedValue(stack, id, {
      name: `${prefix}/${id}`,
      description,
      kmsKeyArn,
      ...(value === undefined ? {} : { value }),
    });
  const version = spec.secretsVersion;
  return {
    databaseUrl: sealed("database-url", "How migrations reach PostgreSQL", {
      text: database.url,
      version,
    }),
    apiDatabaseUrl: sealed("api-database-url", "How the API reaches PostgreSQL", {
      text: database.urlOf("millrace_api", variable("api_database_password")),
      version,
    }),
    workerDatabaseUrl: sealed("worker-database-url", "How the worker reaches PostgreSQL", {
      text: database.urlOf("millrace_worker", variable("worker_database_password")),
      version,
    }),
    gatewayDatabaseUrl: sealed("gateway-database-url", "How gateways reach PostgreSQL", {
      text: database.urlOf("millrace_gateway", variable("gateway_database_password")),
      version,
    }),
    gatewayToken: sealed("gateway-token", "Who shows it may send requests to brokers", {
      text: variable("gateway_token"),
      version,
    }),
    session: sealed("session-secret", "Signs the console's sessions", {
      text: variable("session_secret"),
      version,
    }),
    externalId: sealed("external-id", "What organizations' external ids are made from", {
      text: variable("external_id"),
      version: EXTERNAL_ID_VERSION,
    }),
    firstAccount: sealed("first-account", "How the first owner signs in"),
  };
}
