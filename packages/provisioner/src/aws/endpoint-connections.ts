/** PrivateLink connections to a cluster must be rejected before its endpoint service can be deleted. */
import {
  type EC2Client,
  paginateDescribeVpcEndpointConnections,
  RejectVpcEndpointConnectionsCommand,
} from "@aws-sdk/client-ec2";
import { ProvisionError } from "../cluster-driver.ts";

/** Connections in these states keep their service from being deleted. */
const CONNECTED = /^(available|pending|pendingAcceptance)$/i;

/** Rejects every connection of these services, and returns their number. */
export async function rejectConnections(
  ec2: EC2Client,
  serviceIds: readonly string[],
): Promise<number> {
  let rejected = 0;
  for (const ServiceId of serviceIds) {
    const VpcEndpointIds = await connectedTo(ec2, ServiceId);
    if (VpcEndpointIds.length === 0) continue;
    const command = new RejectVpcEndpointConnectionsCommand({ ServiceId, VpcEndpointIds });
    const { Unsuccessful = [] } = await ec2.send(command);
    const [first] = Unsuccessful;
    if (first) {
      const message = `connection ${first.ResourceId} of endpoint service ${ServiceId} cannot be ended`;
      const detail = `${first.Error?.Code}: ${first.Error?.Message}`;
      throw new ProvisionError("apply_failed", message, { detail });
    }
    rejected += VpcEndpointIds.length;
  }
  return rejected;
}

async function connectedTo(client: EC2Client, serviceId: string): Promise<string[]> {
  const found: string[] = [];
  const Filters = [{ Name: "service-id", Values: [serviceId] }];
  for await (const page of paginateDescribeVpcEndpointConnections({ client }, { Filters })) {
    for (const { ServiceId, VpcEndpointId, VpcEndpointState } of page.VpcEndpointConnections ??
      []) {
      const connected = ServiceId === serviceId && CONNECTED.test(VpcEndpointState ?? "");
      if (connected && VpcEndpointId) found.push(VpcEndpointId);
    }
  }
  return found;
}
