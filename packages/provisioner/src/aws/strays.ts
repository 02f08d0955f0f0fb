/**
 * Duplicates, and resources that are no longer in the stack: a killed run created them and did not record them,
 * so nothing else will ever delete them.
 */
import {
  DeleteRouteTableCommand,
  DeleteSecurityGroupCommand,
  DeleteSubnetCommand,
  DeleteVolumeCommand,
  DeleteVpcCommand,
  DeleteVpcEndpointServiceConfigurationsCommand,
  DeleteVpcEndpointsCommand,
  DescribeSecurityGroupRulesCommand,
  type EC2Client,
  RevokeSecurityGroupEgressCommand,
  RevokeSecurityGroupIngressCommand,
  type UnsuccessfulItem,
} from "@aws-sdk/client-ec2";
import { ScheduleKeyDeletionCommand } from "@aws-sdk/client-kms";
import type { SweepReport, SweptResource } from "../change-plan.ts";
import { ProvisionError } from "../cluster-driver.ts";
import type { AwsClients } from "./aws-account.ts";
import { kindOfId } from "./ec2-existence.ts";

/** Kinds that hold no data, ordered so that dependents come first. */
const WITHOUT_DATA = ["sgr", "vpce", "vpce-svc", "subnet", "rtb", "sg", "vpc"];
/** As for a key that Terraform deletes. */
const KEY_DELETION_DAYS = 7;
const GONE = /NotFound|NotFoundException|KMSInvalidStateException/;
/** Errors of a resource that is still in use: the next sweep, or a person, deals with it. */
const HELD = /^(DependencyViolation|CannotDelete|VolumeInUse|ExistingVpcEndpointConnections)$/;

interface RemovalOptions {
  /** Whether resources with data are removed, too. */
  readonly data: boolean;
  /** Aborted when the caller lost its right to act; the rest stays. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Removes strays without data, and with `data` all; the rest is left. Strays that are gone by now are in neither
 * list. Throws `ProvisionError` `aborted`.
 */
export async function removeStrays(
  clients: Pick<AwsClients, "ec2" | "kms">,
  strays: readonly SweptResource[],
  { data, signal }: RemovalOptions,
): Promise<Pick<SweepReport, "removed" | "left">> {
  const removed: SweptResource[] = [];
  const left: SweptResource[] = [];
  for (const stray of [...strays].sort((a, b) => orderOf(a.id) - orderOf(b.id))) {
    const isData = orderOf(stray.id) === WITHOUT_DATA.length;
    if (isData && !data) {
      left.push(stray);
      continue;
    }
    if (signal?.aborted) throw new ProvisionError("aborted", "removing what is left was aborted");
    try {
      await remove(clients, stray.id);
      removed.push(stray);
    } catch (error) {
      const name = error instanceof Error ? error.name : "";
      if (HELD.test(name)) left.push(stray);
      else if (!GONE.test(name)) throw error;
    }
  }
  return { removed, left };
}

function orderOf(id: string): number {
  const at = WITHOUT_DATA.indexOf(kindOfId(id));
  return at < 0 ? WITHOUT_DATA.length : at;
}

async function remove({ ec2, kms }: Pick<AwsClients, "ec2" | "kms">, id: string): Promise<void> {
  switch (kindOfId(id)) {
    case "sgr":
      return await revoke(ec2, id);
    case "vpce":
      return refused(await ec2.send(new DeleteVpcEndpointsCommand({ VpcEndpointIds: [id] })));
    case "vpce-svc": {
      const command = new DeleteVpcEndpointServiceConfigurationsCommand({ ServiceIds: [id] });
      return refused(await ec2.send(command));
    }
    case "subnet":
      return void (await ec2.send(new DeleteSubnetCommand({ SubnetId: id })));
    case "rtb":
      return void (await ec2.send(new DeleteRouteTableCommand({ RouteTableId: id })));
    case "sg":
      return void (await ec2.send(new DeleteSecurityGroupCommand({ GroupId: id })));
    case "vpc":
      return void (await ec2.send(new DeleteVpcCommand({ VpcId: id })));
    case "vol":
      return void (await ec2.send(new DeleteVolumeCommand({ VolumeId: id })));
    default: {
      const PendingWindowInDays = KEY_DELETION_DAYS;
      const command = new ScheduleKeyDeletionCommand({ KeyId: id, PendingWindowInDays });
      return void (await kms.send(command));
    }
  }
}

async function revoke(ec2: EC2Client, id: string): Promise<void> {
  const SecurityGroupRuleIds = [id];
  const command = new DescribeSecurityGroupRulesCommand({ SecurityGroupRuleIds });
  const rule = (await ec2.send(command)).SecurityGroupRules?.[0];
  if (rule === undefined) return;
  const input = { GroupId: rule.GroupId, SecurityGroupRuleIds };
  if (rule.IsEgress) await ec2.send(new RevokeSecurityGroupEgressCommand(input));
  else await ec2.send(new RevokeSecurityGroupIngressCommand(input));
}

/** These two calls return success with a list of failures. */
function refused({ Unsuccessful }: { Unsuccessful?: UnsuccessfulItem[] | undefined }): void {
  const error = Unsuccessful?.[0]?.Error;
  if (error === undefined) return;
  // In the form of the client's other errors.
  throw Object.assign(new Error(error.Message), { name: error.Code ?? "unknown", $metadata: {} });
}
