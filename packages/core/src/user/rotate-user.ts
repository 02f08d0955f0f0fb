import type { ClusterId, ClusterUser, Principal, ScramMechanism } from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";
import { newClusterPassword, type WithPassword } from "./cluster-password.ts";
import { requireMechanism } from "./require-mechanism.ts";

export interface RotateUserInput {
  readonly clusterId: ClusterId;
  readonly userName: string;
  /** Only this mechanism gets the new password; every mechanism that the user has where it is not given. */
  readonly mechanism?: ScramMechanism | undefined;
  readonly password?: string | undefined;
}

/**
 * A new password. Kafka keeps one password per user and mechanism, so the old and the new one are valid at
 * the same time only where one mechanism is rotated and the other is not. Throws `not_found`,
 * `cluster_not_ready`, `validation_failed` for a mechanism that the user does not have, `broker_unavailable`.
 */
export async function rotateUser(
  core: Core,
  principal: Principal,
  { clusterId, userName, mechanism, password }: RotateUserInput,
): Promise<WithPassword<ClusterUser>> {
  const cluster = await requireServingCluster(core, principal, clusterId);
  const chosen = password ?? newClusterPassword();
  return atBroker(userName, async () => {
    const broker = await core.brokerHttp(cluster);
    const user = await broker.describeUser(userName);
    const rotated = mechanism ? [requireMechanism(user, mechanism, "/mechanism")] : user.mechanisms;
    await core.beforeBrokerChange?.();
    await broker.putPassword(userName, chosen, rotated);
    return { user, password: password === undefined ? chosen : undefined };
  });
}
