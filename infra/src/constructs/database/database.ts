import { DbInstance } from "@cdktn/provider-aws/lib/db-instance/index.js";
import { DbParameterGroup } from "@cdktn/provider-aws/lib/db-parameter-group/index.js";
import { DbSubnetGroup } from "@cdktn/provider-aws/lib/db-subnet-group/index.js";
import { Construct } from "constructs";
import { Firewall } from "../network/firewall.ts";

export interface DatabaseProps {
  readonly name: string;
  readonly vpcId: string;
  readonly subnetIds: readonly string[];
  readonly instanceClass: string;
  readonly kmsKeyArn: string;
  /** An ephemeral value: it reaches AWS and is kept nowhere else. */
  readonly password: string;
  readonly passwordVersion: number;
}

export const DATABASE_PORT = 5432;
/** Where the images have the certificates of RDS's authorities, of all regions. */
export const RDS_AUTHORITIES = "/etc/millrace/rds-ca.pem";
const ENGINE_MAJOR = "17";
const STORAGE_GIB = 50;
/** Storage grows by itself up to this; metrics and operation logs are what grows. */
const STORAGE_GIB_MAX = 500;
const BACKUP_DAYS = 14;
const USER = "millrace";
const DATABASE = "millrace";

/** PostgreSQL in two zones: tenants, clusters, operations, sealed Terraform states. */
export class Database extends Construct {
  readonly firewall: Firewall;
  readonly identifier: string;
  /** Connection text with the password; to be put into write-only attributes only. */
  readonly url: string;
  readonly #address: string;

  constructor(scope: Construct, id: string, props: DatabaseProps) {
    super(scope, id);
    const { name, kmsKeyArn } = props;
    this.firewall = new Firewall(this, "firewall", {
      name: `${name}-database`,
      description: "PostgreSQL of the control plane",
      vpcId: props.vpcId,
    });
    const subnets = new DbSubnetGroup(this, "subnets", { name, subnetIds: [...props.subnetIds] });
    const parameters = new DbParameterGroup(this, "parameters", {
      name: `${name}-${ENGINE_MAJOR}`,
      family: `postgres${ENGINE_MAJOR}`,
      parameter: [
        { name: "rds.force_ssl", value: "1" },
        { name: "log_min_duration_statement", value: "1000" },
      ],
    });
    const instance = new DbInstance(this, "instance", {
      identifier: name,
      engine: "postgres",
      engineVersion: ENGINE_MAJOR,
      instanceClass: props.instanceClass,
      multiAz: true,
      storageType: "gp3",
      allocatedStorage: STORAGE_GIB,
      maxAllocatedStorage: STORAGE_GIB_MAX,
      storageEncrypted: true,
      kmsKeyId: kmsKeyArn,
      dbName: DATABASE,
      username: USER,
      dbSubnetGroupName: subnets.name,
      parameterGroupName: parameters.name,
      vpcSecurityGroupIds: [this.firewall.id],
      publiclyAccessible: false,
      caCertIdentifier: "rds-ca-rsa2048-g1",
      iamDatabaseAuthenticationEnabled: true,
      backupRetentionPeriod: BACKUP_DAYS,
      copyTagsToSnapshot: true,
      deletionProtection: true,
      skipFinalSnapshot: false,
      finalSnapshotIdentifier: `${name}-final`,
      autoMinorVersionUpgrade: true,
      performanceInsightsEnabled: true,
      performanceInsightsKmsKeyId: kmsKeyArn,
      enabledCloudwatchLogsExports: ["postgresql", "upgrade"],
      lifecycle: { preventDestroy: true },
    });
    instance.addOverride("password_wo", props.password);
    instance.addOverride("password_wo_version", props.passwordVersion);
    this.identifier = name;
    this.#address = instance.address;
    this.url = this.urlOf(USER, props.password);
  }

  /** The database as this role sees it. */
  urlOf(role: string, password: string): string {
    return `postgres://${role}:${password}@${this.#address}:${DATABASE_PORT}/${DATABASE}?sslmode=verify-full&sslrootcert=${RDS_AUTHORITIES}`;
  }
}
