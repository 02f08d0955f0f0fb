import { DbInstance } from "@cdktn/provider-aws/lib/db-instance/index.js";
import { DbParameterGroup } from "@cdktn/provider-aws/lib/db-parameter-group/index.js";
import { DbSubnetGroup } from "@cdktn/provider-aws/lib/db-subnet-group/index.js";
import { EphemeralAwsSecretsmanagerSecretVersion } from "@cdktn/provider-aws/lib/ephemeral-aws-secretsmanager-secret-version/index.js";
import { SecretsmanagerSecret } from "@cdktn/provider-aws/lib/secretsmanager-secret/index.js";
import { SecretsmanagerSecretVersion } from "@cdktn/provider-aws/lib/secretsmanager-secret-version/index.js";
import {
  METADATA_BACKUP_DAYS,
  METADATA_STORAGE_GIB,
  METADATA_STORAGE_GIB_MAX,
} from "@millrace/domain";
import { Construct } from "constructs";
import { Firewall } from "../network/firewall.ts";
import { ephemeralVariable } from "../sealed-value/sealed-value.ts";

export interface MetadataDatabaseProps {
  readonly name: string;
  readonly clusterId: string;
  readonly vpcId: string;
  /** In two zones or more. */
  readonly subnetIds: readonly string[];
  readonly instanceClass: string;
  readonly kmsKeyArn: string;
  readonly secrets: MetadataSecrets;
  /** Where brokers find the certificates that they trust; part of the text that they connect with. */
  readonly authorityFile: string;
  /** False only in the stack that is destroyed next. */
  readonly protected: boolean;
}

/** Names of the secrets with the password, and with the whole text that brokers connect with. */
export interface MetadataSecrets {
  readonly password: string;
  readonly url: string;
}

export const METADATA_DATABASE_PORT = 5432;
/**
 * The variable with a password for a database that has none yet. Each run of Terraform gets another one: only the secret
 * that stores the first keeps it.
 */
export const METADATA_PASSWORD_VARIABLE = "metadata_password";
const ENGINE_MAJOR = "17";
const USER = "millrace";
const DATABASE = "millrace";
/** Made once; a password is replaced by raising it. */
const PASSWORD_VERSION = 1;
/** A vacuum, or a backup's end, may take a moment; a commit that takes longer is worth a line. */
const SLOW_STATEMENT_MS = "1000";

/**
 * PostgreSQL in two zones, in which several brokers of one cluster share their metadata: it says what the objects in the
 * bucket mean, so it is as protected as they are.
 *
 * No plan or state has its password. An ephemeral variable goes into a secret when that is made, and the database gets what the
 * secret holds, so that a run that ends between the two leaves a password that the next one knows.
 */
export class MetadataDatabase extends Construct {
  readonly firewall: Firewall;
  readonly identifier: string;

  constructor(scope: Construct, id: string, props: MetadataDatabaseProps) {
    super(scope, id);
    const { name } = props;
    this.identifier = name;
    this.firewall = new Firewall(this, "firewall", {
      name: `${name}-metadata`,
      description: `Metadata database of the Kafka cluster ${props.clusterId}`,
      vpcId: props.vpcId,
    });
    const password = this.#password(props);
    const address = this.#instance(props, password);
    const url = `postgres://${USER}:${password}@${address}:${METADATA_DATABASE_PORT}/${DATABASE}?sslmode=verify-full&sslrootcert=${props.authorityFile}`;
    this.#secret("url", props.secrets.url, "What brokers connect to the metadata with", props, url);
  }

  /** What the secret holds, whoever wrote it. */
  #password(props: MetadataDatabaseProps): string {
    const text = "Password of the metadata database";
    const first = ephemeralVariable(this, METADATA_PASSWORD_VARIABLE, text);
    const version = this.#secret("password", props.secrets.password, text, props, first);
    return new EphemeralAwsSecretsmanagerSecretVersion(this, "stored-password", {
      secretId: version.secretId,
    }).secretString;
  }

  #secret(
    id: string,
    name: string,
    description: string,
    { clusterId, kmsKeyArn }: MetadataDatabaseProps,
    text: string,
  ): SecretsmanagerSecretVersion {
    const secret = new SecretsmanagerSecret(this, `${id}-secret`, {
      name,
      description: `${description} of the Kafka cluster ${clusterId}`,
      kmsKeyId: kmsKeyArn,
      // Deleted with the database only.
      recoveryWindowInDays: 0,
    });
    return new SecretsmanagerSecretVersion(this, `${id}-version`, {
      secretId: secret.id,
      secretStringWo: text,
      secretStringWoVersion: PASSWORD_VERSION,
    });
  }

  /** The database's address. */
  #instance(props: MetadataDatabaseProps, password: string): string {
    const { name, kmsKeyArn } = props;
    const subnets = new DbSubnetGroup(this, "subnets", { name, subnetIds: [...props.subnetIds] });
    const parameters = new DbParameterGroup(this, "parameters", {
      name: `${name}-${ENGINE_MAJOR}`,
      family: `postgres${ENGINE_MAJOR}`,
      parameter: [
        { name: "rds.force_ssl", value: "1" },
        { name: "log_min_duration_statement", value: SLOW_STATEMENT_MS },
      ],
    });
    const instance = new DbInstance(this, "instance", {
      identifier: name,
      engine: "postgres",
      engineVersion: ENGINE_MAJOR,
      instanceClass: props.instanceClass,
      multiAz: true,
      storageType: "gp3",
      allocatedStorage: METADATA_STORAGE_GIB,
      maxAllocatedStorage: METADATA_STORAGE_GIB_MAX,
      storageEncrypted: true,
      kmsKeyId: kmsKeyArn,
      dbName: DATABASE,
      username: USER,
      dbSubnetGroupName: subnets.name,
      parameterGroupName: parameters.name,
      vpcSecurityGroupIds: [this.firewall.id],
      publiclyAccessible: false,
      caCertIdentifier: "rds-ca-rsa2048-g1",
      backupRetentionPeriod: METADATA_BACKUP_DAYS,
      copyTagsToSnapshot: true,
      deleteAutomatedBackups: true,
      deletionProtection: props.protected,
      skipFinalSnapshot: !props.protected,
      finalSnapshotIdentifier: `${name}-final`,
      autoMinorVersionUpgrade: true,
      // A larger class, or more storage, is wanted now and not at the next weekly window.
      applyImmediately: true,
      performanceInsightsEnabled: true,
      performanceInsightsKmsKeyId: kmsKeyArn,
      passwordWoVersion: PASSWORD_VERSION,
      passwordWo: password,
      lifecycle: { preventDestroy: props.protected },
    });
    return instance.address;
  }
}
