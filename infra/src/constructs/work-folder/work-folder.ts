import { EfsAccessPoint } from "@cdktn/provider-aws/lib/efs-access-point/index.js";
import { EfsBackupPolicy } from "@cdktn/provider-aws/lib/efs-backup-policy/index.js";
import { EfsFileSystem } from "@cdktn/provider-aws/lib/efs-file-system/index.js";
import { EfsFileSystemPolicy } from "@cdktn/provider-aws/lib/efs-file-system-policy/index.js";
import { EfsMountTarget } from "@cdktn/provider-aws/lib/efs-mount-target/index.js";
import { Construct } from "constructs";
import { policyText } from "../identity/statement.ts";
import { Firewall } from "../network/firewall.ts";

export interface WorkFolderProps {
  readonly name: string;
  readonly vpcId: string;
  readonly subnetIds: readonly string[];
  readonly kmsKeyArn: string;
}

export const NFS_PORT = 2049;
/** The account that the images run as. */
const USER_ID = 10_001;

/**
 * `MILLRACE_HOME` of the tasks: Terraform's working folders and the installation's key file. A
 * task that dies in the middle of an apply leaves its state here; PostgreSQL has a sealed copy
 * that is at most a second older, and a sweep by tags finds what neither knows.
 */
export class WorkFolder extends Construct {
  readonly fileSystemId: string;
  readonly fileSystemArn: string;
  readonly accessPointId: string;
  readonly accessPointArn: string;
  readonly firewall: Firewall;

  constructor(scope: Construct, id: string, props: WorkFolderProps) {
    super(scope, id);
    this.firewall = new Firewall(this, "firewall", {
      name: `${props.name}-work-folder`,
      description: "Working folder of the control plane",
      vpcId: props.vpcId,
    });
    const files = new EfsFileSystem(this, "files", {
      creationToken: props.name,
      encrypted: true,
      kmsKeyId: props.kmsKeyArn,
      throughputMode: "elastic",
      tags: { Name: props.name },
      lifecycle: { preventDestroy: true },
    });
    new EfsBackupPolicy(this, "backup", {
      fileSystemId: files.id,
      backupPolicy: { status: "ENABLED" },
    });
    for (const [index, subnetId] of props.subnetIds.entries()) {
      new EfsMountTarget(this, `mount-${index}`, {
        fileSystemId: files.id,
        subnetId,
        securityGroups: [this.firewall.id],
      });
    }
    const point = new EfsAccessPoint(this, "home", {
      fileSystemId: files.id,
      posixUser: { uid: USER_ID, gid: USER_ID },
      rootDirectory: {
        path: "/millrace",
        creationInfo: { ownerUid: USER_ID, ownerGid: USER_ID, permissions: "0700" },
      },
    });
    this.fileSystemId = files.id;
    this.fileSystemArn = files.arn;
    this.accessPointId = point.id;
    this.accessPointArn = point.arn;
  }

  /**
   * Lets only this role mount the folder, with TLS. Without a policy of its own, a file system admits every client
   * that reaches a mount target, and asks it for no credentials.
   */
  admit(roleArn: string): void {
    const client = ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"];
    new EfsFileSystemPolicy(this, "policy", {
      fileSystemId: this.fileSystemId,
      policy: policyText([
        {
          Sid: "Role",
          Effect: "Allow",
          Principal: { AWS: roleArn },
          Action: client,
          Resource: [this.fileSystemArn],
          Condition: {
            StringEquals: { "elasticfilesystem:AccessPointArn": this.accessPointArn },
          },
        },
        {
          Sid: "OnlyTls",
          Effect: "Deny",
          Principal: "*",
          Action: [...client, "elasticfilesystem:ClientRootAccess"],
          Resource: [this.fileSystemArn],
          Condition: { Bool: { "aws:SecureTransport": "false" } },
        },
      ]),
    });
  }
}
