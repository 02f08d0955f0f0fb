import { type Database, type Fence, LeaseLost, StateVersionTaken } from "@millrace/db";
import type { ClusterId, OperationId, OrganizationId } from "@millrace/domain";
import { StateConflict, type StoredState, type TerraformStates } from "@millrace/provisioner";

/** The control plane's database as the place where drivers keep sealed Terraform states. */
export function terraformStatesIn(db: Pick<Database, "fleet" | "tenant">): TerraformStates {
  const statesOf = (state: { readonly organizationId: string }) =>
    db.tenant(state.organizationId as OrganizationId).terraformStates;
  return {
    async load(clusterId) {
      const cluster = await db.fleet.clusters.load(clusterId as ClusterId);
      return cluster && (await statesOf(cluster).load(cluster.id));
    },
    clusterIds: () => db.fleet.terraformStates.clusterIds(),
    async save(state, fence) {
      const held: Fence | undefined = fence && {
        operationId: fence.operationId as OperationId,
        attempt: fence.attempt,
      };
      try {
        await statesOf(state).save(ownedBy(state), held);
      } catch (error) {
        if (!(error instanceof LeaseLost) && !(error instanceof StateVersionTaken)) throw error;
        throw new StateConflict(error.message, { cause: error });
      }
    },
    rewrap: (state, wrapped) => statesOf(state).rewrap(ownedBy(state), wrapped),
  };
}

function ownedBy(state: StoredState) {
  return {
    ...state,
    clusterId: state.clusterId as ClusterId,
    organizationId: state.organizationId as OrganizationId,
  };
}
