import { type ClusterDriver, ProvisionError } from "./cluster-driver.ts";

/** Makes plans without any account; every driver is one. */
export type ClusterPlanner = Pick<ClusterDriver, "plan">;

export interface ClusterDriverSet {
  readonly local: ClusterDriver;
  /** Absent where this installation has no AWS account. */
  readonly aws?: ClusterDriver | undefined;
  /** Plans AWS clusters offline; the driver does where there is one. */
  readonly awsPlanner?: ClusterPlanner | undefined;
}

/** The drivers of an installation, by the place where a cluster lives. */
export class ClusterDrivers {
  readonly #set: ClusterDriverSet;

  constructor(set: ClusterDriverSet) {
    this.#set = set;
  }

  /** The driver of a region. Throws `ProvisionError` `unconfigured` where there is none. */
  of(region: string): ClusterDriver {
    const driver = this.find(region);
    if (driver) return driver;
    throw unconfigured(region);
  }

  /** The driver of a region, where this installation has one. */
  find(region: string): ClusterDriver | undefined {
    return isLocal(region) ? this.#set.local : this.#set.aws;
  }

  /** What plans offline for a region. Throws `ProvisionError` `unconfigured` where there is none. */
  planner(region: string): ClusterPlanner {
    const planner = this.find(region) ?? this.#set.awsPlanner;
    if (planner) return planner;
    throw unconfigured(region);
  }

  all(): readonly ClusterDriver[] {
    return this.#set.aws ? [this.#set.local, this.#set.aws] : [this.#set.local];
  }
}

function isLocal(region: string): boolean {
  return region === "local";
}

function unconfigured(region: string): ProvisionError {
  return new ProvisionError(
    "unconfigured",
    `no AWS account is configured for ${region}: set MILLRACE_AWS_ROLE_ARN and install Terraform`,
  );
}
