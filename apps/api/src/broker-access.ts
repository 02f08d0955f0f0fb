import {
  awsAccess,
  type ClusterDriver,
  type ControlLink,
  type Gateways,
  localAccess,
  ProvisionError,
} from "@millrace/provisioner";

export interface BrokerAccessOptions {
  /** State folder of the installation. */
  readonly home: string;
  /** The gateways of brokers on this machine. */
  readonly link?: ControlLink | undefined;
  readonly gateways?: Gateways | undefined;
}

/**
 * How to reach the brokers of every region. The access throws `ProvisionError` `unconfigured` for clusters on AWS if this
 * program has no gateway.
 */
export function brokerAccess({
  home,
  link,
  gateways,
}: BrokerAccessOptions): ClusterDriver["access"] {
  const local = localAccess(home, link);
  const aws = gateways && awsAccess(gateways);
  return async (deployment, brokerId) => {
    if (deployment.region === "local") return await local(deployment, brokerId);
    if (aws) return await aws(deployment, brokerId);
    const message = "brokers on AWS are reached through gateways: set MILLRACE_GATEWAY_URL";
    throw new ProvisionError("unconfigured", message);
  };
}
