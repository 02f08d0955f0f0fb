import type { ClusterId, OrganizationId } from "@millrace/domain";
import { type Client, isUniqueViolation } from "./client.ts";
import type { TerraformState as StateRow } from "./generated/client.ts";
import { type Fence, LeaseLost } from "./operation-journal.ts";

/** Versions kept of each state: days of changes, and room for a look back after a fault. */
export const STATE_VERSIONS_MAX = 50;

/** One version of a cluster's Terraform state. What it says is sealed before it comes here. */
export interface SealedState {
  readonly organizationId: OrganizationId;
  readonly clusterId: ClusterId;
  /** Counts from 1 per cluster. */
  readonly version: number;
  /** Terraform's own count within a lineage. */
  readonly serial: number;
  readonly lineage: string;
  readonly ciphertext: Uint8Array;
  readonly wrappedKey: Uint8Array;
  readonly keyId: string;
}

/** That version of the state was written by somebody else. */
export class StateVersionTaken extends Error {
  override readonly name = "StateVersionTaken";
}

/** Sealed Terraform states: written by who holds an operation of the cluster, read by workers. */
export class TerraformStateRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** The newest version. */
  async load(clusterId: ClusterId): Promise<SealedState | undefined> {
    const row = await this.#client.terraformState.findFirst({
      where: { clusterId },
      include: { cluster: { select: { organizationId: true } } },
      orderBy: { version: "desc" },
    });
    if (!row) return undefined;
    return toSealedState(row, row.cluster.organizationId as OrganizationId);
  }

  /**
   * Adds a version and drops those beyond the bound, in one statement. With a fence it does so only
   * while that attempt holds its operation, which has to be one of this cluster. Throws `LeaseLost`,
   * `StateVersionTaken`.
   */
  async save(state: SealedState, fence: Fence | undefined): Promise<void> {
    const { clusterId, version, serial, lineage, ciphertext, wrappedKey, keyId } = state;
    const operationId = fence?.operationId ?? null;
    const attempt = fence?.attempt ?? null;
    let added: number;
    try {
      // The row's lock keeps a later attempt from being claimed between the look and the write.
      added = await this.#client.$executeRaw`
        WITH held AS (
          SELECT 1 FROM operation WHERE id = ${operationId} AND attempt = ${attempt} AND NOT done
            AND cluster_id = ${clusterId} FOR UPDATE
        ), dropped AS (
          DELETE FROM terraform_state WHERE cluster_id = ${clusterId}
            AND version <= ${version - STATE_VERSIONS_MAX}
            AND (${operationId}::text IS NULL OR EXISTS (SELECT 1 FROM held))
        )
        INSERT INTO terraform_state (cluster_id, version, serial, lineage, ciphertext, wrapped_key,
          key_id, operation_id, attempt)
        SELECT c.id, ${version}, ${serial}, ${lineage}, ${ciphertext}, ${wrappedKey}, ${keyId},
          ${operationId}, ${attempt}
        FROM cluster c WHERE c.id = ${clusterId} AND c.organization_id = ${state.organizationId}
          AND (${operationId}::text IS NULL OR EXISTS (SELECT 1 FROM held))`;
    } catch (error) {
      if (!isUniqueViolation(error)) throw error;
      throw new StateVersionTaken(`version ${version} of ${clusterId}'s state exists already`);
    }
    if (added === 0) {
      throw new LeaseLost(
        `attempt ${attempt} of ${operationId} may not write ${clusterId}'s state`,
      );
    }
  }

  /** Clusters of which there is a state. */
  async clusterIds(): Promise<ClusterId[]> {
    const rows = await this.#client.terraformState.findMany({
      distinct: ["clusterId"],
      orderBy: { clusterId: "asc" },
      select: { clusterId: true },
    });
    return rows.map((row) => row.clusterId as ClusterId);
  }

  /** Replaces the wrapped key of that version, if it is still the newest and has the key it had. */
  async rewrap(
    { clusterId, version, keyId }: SealedState,
    wrapped: Pick<SealedState, "wrappedKey" | "keyId">,
  ): Promise<void> {
    await this.#client.$executeRaw`
      UPDATE terraform_state SET wrapped_key = ${wrapped.wrappedKey}, key_id = ${wrapped.keyId}
      WHERE cluster_id = ${clusterId} AND version = ${version} AND key_id = ${keyId}
        AND NOT EXISTS (SELECT 1 FROM terraform_state newer
          WHERE newer.cluster_id = ${clusterId} AND newer.version > ${version})`;
  }

  /** Forgets every version: what the state spoke of is gone. */
  async forget(clusterId: ClusterId): Promise<void> {
    await this.#client.terraformState.deleteMany({ where: { clusterId } });
  }
}

function toSealedState(row: StateRow, organizationId: OrganizationId): SealedState {
  return {
    organizationId,
    clusterId: row.clusterId as ClusterId,
    version: row.version,
    serial: Number(row.serial),
    lineage: row.lineage,
    ciphertext: row.ciphertext,
    wrappedKey: row.wrappedKey,
    keyId: row.keyId,
  };
}
