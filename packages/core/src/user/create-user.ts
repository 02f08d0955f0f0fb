import { BrokerError } from "@millrace/broker-admin";
import {
  type ClusterId,
  type ClusterUser,
  DomainError,
  type Principal,
  SCRAM_MECHANISMS,
} from "@millrace/domain";
import type { BrokerHttpPort } from "../broker-access.ts";
import { atBroker } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";
import { newClusterPassword, type WithPassword } from "./cluster-password.ts";

export interface CreateUserInput {
  readonly clusterId: ClusterId;
  readonly name: string;
  /** Generated where the caller chooses none. */
  readonly password?: string | undefined;
}

/**
 * A user with one password for every mechanism. The broker stores it salted and hashed; nobody stores the
 * password. Throws `not_found`, `cluster_not_ready`, `user_name_taken`, `broker_unavailable`.
 */
export async function createUser(
  core: Core,
  principal: Principal,
  { clusterId, name, password }: CreateUserInput,
): Promise<WithPassword<ClusterUser>> {
  const cluster = await requireServingCluster(core, principal, clusterId);
  const chosen = password ?? newClusterPassword();
  return atBroker(name, async () => {
    const broker = await core.brokerHttp(cluster);
    // The broker would silently replace the password of a user that exists.
    if (await hasUser(broker, name)) throw nameTaken(name);
    await core.beforeBrokerChange?.();
    await broker.putPassword(name, chosen, SCRAM_MECHANISMS);
    const user = { name, mechanisms: SCRAM_MECHANISMS };
    return { user, password: password === undefined ? chosen : undefined };
  });
}

async function hasUser(broker: BrokerHttpPort, name: string): Promise<boolean> {
  try {
    await broker.describeUser(name);
    return true;
  } catch (error) {
    if (error instanceof BrokerError && error.code === "user_not_found") return false;
    throw error;
  }
}

function nameTaken(name: string): DomainError {
  return new DomainError("user_name_taken", `A user named "${name}" already exists.`, {
    remedy: "Choose another name, or rotate the user's password.",
    fields: [
      { pointer: "/name", code: "taken", message: "is used by another user of this cluster" },
    ],
  });
}
