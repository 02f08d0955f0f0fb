import { type Database, type Fence, LeaseLost, StateVersionTaken } from "@millrace/db";
import type { ClusterId, OperationId, OrganizationId } from "@millrace/domain";
import { StateConflict, type StoredState, type TerraformStates } from "@millrace/provisioner";

/** The control plane's database as the place where drivers keep sealed Terraform states. */
export function terraformStatesIn({
  terraformStates,
}: Pick<Database, "terraformStates">): TerraformStates {
  return {
    load: (clusterId) => terraformStates.load(clusterId as ClusterId),
    clusterIds: () => terraformStates.clusterIds(),
    async save(state, fence) {
      const held: Fence | undefined = fence && {
        operationId: fence.operationId as OperationId,
        attempt: fence.attempt,
      };
      try {
        await terraformStates.save(ownedBy(state), held);
      } catch (error) {
        if (!(error instanceof LeaseLost) && !(error instanceof StateVersionTaken)) throw error;
        throw new StateConflict(error.message, { cause: error });
      }
    },
    rewrap: (state, wrapped) => terraformStates.rewrap(ownedBy(state), wrapped),
  };
}

function ownedBy(state: StoredState) {
  return {
    ...state,
    clusterId: state.clusterId as ClusterId,
    organizationId: state.organizationId as OrganizationId,
  };
}
