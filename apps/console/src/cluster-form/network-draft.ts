/** Where a cluster on AWS stands and who reaches it, while somebody chooses it. */
import { DEFAULT_AWS_NETWORK, type NetworkAccess } from "@millrace/domain";

export interface NetworkDraft {
  /** A VPC of the cluster's own, or subnets of one that is there. */
  vpc: "new" | "existing";
  /** Empty: a range that no other cluster of the organization uses. */
  cidr: string;
  vpcId: string;
  subnetIds: string[];
  access: NetworkAccess;
  allowedPrincipals: string[];
  allowedCidrs: string[];
}

/** What the API takes. */
export interface NetworkRequest {
  vpc_id?: string | undefined;
  subnet_ids?: string[] | undefined;
  cidr?: string | undefined;
  access: NetworkAccess;
  allowed_principals: string[];
  allowed_cidrs: string[];
}

export const DEFAULT_NETWORK_DRAFT: NetworkDraft = {
  vpc: "new",
  cidr: "",
  vpcId: "",
  subnetIds: [],
  access: DEFAULT_AWS_NETWORK.access,
  allowedPrincipals: [],
  allowedCidrs: [],
};

/** Only what the choice asks for: a field of the other choice may still hold what was typed. */
export function networkRequestOf(network: NetworkDraft): NetworkRequest {
  const { access, allowedCidrs } = network;
  return {
    ...(network.vpc === "new"
      ? network.cidr.trim() !== "" && { cidr: network.cidr.trim() }
      : { vpc_id: network.vpcId.trim(), subnet_ids: network.subnetIds }),
    access,
    allowed_principals: access === "endpoint_service" ? network.allowedPrincipals : [],
    allowed_cidrs: allowedCidrs,
  };
}
