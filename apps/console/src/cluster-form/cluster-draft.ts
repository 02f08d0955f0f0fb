/** A cluster while somebody describes it. Pure, so that it is tested alone. */
import {
  type AwsRegion,
  CLUSTER_NAME_MAX,
  CLUSTER_NAME_PATTERN,
  type ClusterSize,
  isAwsRegion,
  type Region,
} from "@millrace/domain";
import type { FieldErrors } from "./field-errors.ts";
import {
  DEFAULT_NETWORK_DRAFT,
  type NetworkDraft,
  type NetworkRequest,
  networkRequestOf,
} from "./network-draft.ts";
import {
  checkWalDraft,
  defaultWalDraft,
  type WalDraft,
  type WalRequest,
  walRequestOf,
} from "./wal-draft.ts";

export interface ClusterDraft {
  name: string;
  /** Empty: the organization's first one. */
  environmentId: string;
  region: Region;
  size: ClusterSize;
  deletionProtection: boolean;
  brokers: number;
  /** Of a cluster on this machine. */
  plaintextListener: boolean;
  /** Somebody looks at the plan once more before it is applied. */
  requireApproval: boolean;
  wal: WalDraft;
  network: NetworkDraft;
  /** Empty: the cluster gets a key of its own. */
  kmsKeyArn: string;
}

export interface ClusterRequest {
  name: string;
  region: Region;
  size: ClusterSize;
  environment_id?: `env_${string}`;
  deletion_protection: boolean;
  plaintext_listener?: boolean;
  brokers?: number;
  require_approval?: boolean;
  wal?: WalRequest;
  network?: NetworkRequest;
  storage?: { kms_key_arn: string };
}

export const NAME_RULE = "Lowercase letters, digits and hyphens; starts with a letter";

/** What is wrong with a cluster's name, and not what every name has to be. */
export function nameError(name: string): string | undefined {
  if (CLUSTER_NAME_PATTERN.test(name)) return undefined;
  if (name === "") return "Enter a name";
  if (name.length > CLUSTER_NAME_MAX) return `Enter ${CLUSTER_NAME_MAX} characters or fewer`;
  if (/[^a-z0-9-]/.test(name)) return "Use only lowercase letters, digits and hyphens";
  return name.endsWith("-") ? "End with a letter or a digit" : "Start with a letter";
}

export const NEW_CLUSTER: ClusterDraft = {
  name: "",
  environmentId: "",
  region: "local",
  size: "dev",
  deletionProtection: false,
  brokers: 1,
  plaintextListener: true,
  requireApproval: false,
  wal: defaultWalDraft("dev"),
  network: DEFAULT_NETWORK_DRAFT,
  kmsKeyArn: "",
};

/** Elsewhere. Data on AWS is others' data, so it is protected unless somebody decides otherwise. */
export function inRegion(draft: ClusterDraft, region: Region): ClusterDraft {
  if (isAwsRegion(region) === isAwsRegion(draft.region)) return { ...draft, region };
  return { ...draft, region, deletionProtection: isAwsRegion(region) };
}

/** A new cluster where this installation can create one: not on this machine where that runs none. */
export function startingWith(
  draft: ClusterDraft,
  regions: readonly { readonly id: Region; readonly available: boolean }[],
): ClusterDraft {
  const isAvailable = regions.find(({ id }) => id === draft.region)?.available ?? true;
  const first = regions.find(({ available }) => available);
  return isAvailable || first === undefined ? draft : inRegion(draft, first.id);
}

/** Another size, with its volume; a volume that somebody chose stays. */
export function withSize(draft: ClusterDraft, size: ClusterSize): ClusterDraft {
  const usual = JSON.stringify(draft.wal) === JSON.stringify(defaultWalDraft(draft.size));
  return { ...draft, size, wal: usual ? defaultWalDraft(size) : draft.wal };
}

export function checkDraft(draft: ClusterDraft): FieldErrors {
  const name = nameError(draft.name);
  return {
    ...(name !== undefined && { "/name": name }),
    ...(onAws(draft) && {
      ...checkWalDraft(draft.wal, draft.size),
      ...checkNetwork(draft.network),
    }),
  };
}

function checkNetwork(network: NetworkDraft): FieldErrors {
  if (network.vpc === "new") return {};
  return {
    ...(network.vpcId.trim() === "" && { "/network/vpc_id": "Enter the VPC ID" }),
    ...(network.subnetIds.length === 0 && {
      "/network/subnet_ids": "Enter the private subnet IDs",
    }),
  };
}

export function onAws(draft: ClusterDraft): draft is ClusterDraft & { region: AwsRegion } {
  return isAwsRegion(draft.region);
}

/** What the API is asked; what only AWS has is left out elsewhere. */
export function requestOf(draft: ClusterDraft): ClusterRequest {
  const kmsKeyArn = draft.kmsKeyArn.trim();
  return {
    name: draft.name,
    region: draft.region,
    size: draft.size,
    ...(draft.environmentId !== "" && { environment_id: draft.environmentId as `env_${string}` }),
    deletion_protection: draft.deletionProtection,
    ...(draft.requireApproval && { require_approval: true }),
    ...(!onAws(draft) && !draft.plaintextListener && { plaintext_listener: false }),
    ...(draft.brokers !== 1 && { brokers: draft.brokers }),
    ...(onAws(draft) && {
      wal: walRequestOf(draft.wal),
      network: networkRequestOf(draft.network),
      ...(kmsKeyArn !== "" && { storage: { kms_key_arn: kmsKeyArn } }),
    }),
  };
}
