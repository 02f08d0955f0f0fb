import {
  type AwsSpec,
  type Cluster,
  type ClusterDrift,
  type ClusterId,
  type ClusterPhase,
  type ClusterSize,
  type Condition,
  clusterNameTaken,
  type DriftStatus,
  type EnvironmentId,
  newId,
  type OperationId,
  type OperationKind,
  type OrganizationId,
  type Placement,
  phasesBefore,
  type Region,
  sizingOf,
  type TuningOverrides,
} from "@millrace/domain";
import { brokenUniqueRule, type Client } from "./client.ts";
import type { Cluster as ClusterRow, Prisma } from "./generated/client.ts";
import { olderThan, type Page, type PageRequest, pageOf } from "./page.ts";

export interface NewCluster {
  readonly organizationId: OrganizationId;
  readonly environmentId: EnvironmentId;
  readonly name: string;
  readonly region: Region;
  readonly size: ClusterSize;
  readonly labels: Readonly<Record<string, string>>;
  readonly conditions: readonly Condition[];
  readonly deletionProtection?: boolean;
  readonly plaintextListener?: boolean;
  readonly brokers?: number;
  readonly zones?: number;
  readonly aws?: AwsSpec | undefined;
}

/** What is to change of a cluster's spec; what is absent stays. */
export interface SpecChange {
  readonly name?: string | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly size?: ClusterSize | undefined;
  readonly deletionProtection?: boolean | undefined;
  readonly plaintextListener?: boolean | undefined;
  readonly brokers?: number | undefined;
  readonly zones?: number | undefined;
  /** The whole of it, already merged. */
  readonly aws?: AwsSpec | undefined;
  readonly paused?: boolean | undefined;
  /** Null: the data is kept until somebody says otherwise. */
  readonly purgeAt?: Date | null | undefined;
  /** Whether an operation has to make the change so: raises the revision. */
  readonly needsOperation: boolean;
  /** The revision that this is again, where a change is taken back. */
  readonly revision?: number | undefined;
}

export interface PhaseChange {
  readonly to: ClusterPhase;
  /** Narrows the phases that the change may start from; all that the state machine allows else. */
  readonly from?: readonly ClusterPhase[];
  readonly conditions?: readonly Condition[];
  /** Says that the spec's current revision has taken effect. */
  readonly observed?: boolean;
}

/** The ports were recorded by another cluster between choosing and recording: choose again. */
export class PlacementTaken extends Error {
  override readonly name = "PlacementTaken";
}

/** Clusters, of the tenant that the transaction is for. */
export class ClusterRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** A cluster in PROVISIONING. Throws `cluster_name_taken`. */
  async create(cluster: NewCluster): Promise<Cluster> {
    try {
      const { aws, ...plain } = cluster;
      const row = await this.#client.cluster.create({
        data: {
          id: newId("clu"),
          ...plain,
          ...(aws && { aws: awsToJson(aws) }),
          ...(aws === undefined && { localWalBytes: sizingOf(cluster.size).walBytes }),
          conditions: toJson(cluster.conditions),
          phase: "PROVISIONING" satisfies ClusterPhase,
        },
      });
      return toCluster(row);
    } catch (error) {
      if (brokenUniqueRule(error) === undefined) throw error;
      throw clusterNameTaken(cluster.name, error);
    }
  }

  async get(organizationId: OrganizationId, id: ClusterId): Promise<Cluster | undefined> {
    const where = { id, organizationId, deletedAt: null };
    const row = await this.#client.cluster.findFirst({ where });
    return row ? toCluster(row) : undefined;
  }

  /** Like `get`, and keeps the row locked until the transaction ends. */
  async lock(organizationId: OrganizationId, id: ClusterId): Promise<Cluster | undefined> {
    await this.#client.$queryRaw`
      SELECT 1 FROM cluster WHERE id = ${id} AND organization_id = ${organizationId} FOR UPDATE`;
    return this.get(organizationId, id);
  }

  /** Newest first. */
  async list(
    organizationId: OrganizationId,
    page: PageRequest,
    filter: { environmentId?: EnvironmentId | undefined } = {},
  ): Promise<Page<Cluster>> {
    const rows = await this.#client.cluster.findMany({
      where: {
        organizationId,
        deletedAt: null,
        ...(filter.environmentId && { environmentId: filter.environmentId }),
        ...olderThan(page.after),
      },
      orderBy: [{ createdAt: "desc" }, { id: "desc" }],
      take: page.limit + 1,
    });
    return pageOf(rows, page.limit, toCluster);
  }

  /** The cluster that has the name; one whose data is only kept does not have it any more. */
  async findByName(environmentId: EnvironmentId, name: string): Promise<Cluster | undefined> {
    const where = { environmentId, name, deletedAt: null, purgeAt: null };
    const row = await this.#client.cluster.findFirst({ where });
    return row ? toCluster(row) : undefined;
  }

  /** Address ranges of VPCs that were made for the tenant's clusters, those with kept data included. */
  async vpcRanges(organizationId: OrganizationId): Promise<string[]> {
    const rows = await this.#client.cluster.findMany({
      where: { organizationId, deletedAt: null, region: { not: "local" satisfies Region } },
      select: { aws: true },
    });
    return rows.flatMap(({ aws }) => {
      const network = (aws as AwsSpec | null)?.network;
      return network && network.vpcId === undefined ? [network.cidr] : [];
    });
  }

  async count(organizationId: OrganizationId): Promise<number> {
    return this.#client.cluster.count({ where: { organizationId, deletedAt: null } });
  }

  /** The cluster, deleted ones too. */
  async load(id: ClusterId): Promise<Cluster | undefined> {
    const row = await this.#client.cluster.findUnique({ where: { id } });
    return row ? toCluster(row) : undefined;
  }

  /** Clusters in one of these phases, oldest first. */
  async inPhases(phases: readonly ClusterPhase[]): Promise<Cluster[]> {
    const rows = await this.#client.cluster.findMany({
      where: { phase: { in: [...phases] }, deletedAt: null },
      orderBy: { id: "asc" },
    });
    return rows.map(toCluster);
  }

  /**
   * Changes the phase if the state machine and `from` allow it from where the cluster is now; the
   * check and the change are one statement. Undefined where they do not. Throws
   * `cluster_name_taken` where a cluster comes back whose name was given away meanwhile.
   */
  async changePhase(id: ClusterId, change: PhaseChange): Promise<Cluster | undefined> {
    try {
      return await this.#changePhase(id, change);
    } catch (error) {
      if (brokenUniqueRule(error) === undefined) throw error;
      // The broken rule has ended the transaction: nothing more can be read in it.
      throw clusterNameTaken(undefined, error);
    }
  }

  async #changePhase(id: ClusterId, change: PhaseChange): Promise<Cluster | undefined> {
    const allowed = phasesBefore(change.to).filter((p) => change.from?.includes(p) ?? true);
    const deleted = change.to === "DELETED";
    const [row] = await this.#client.cluster.updateManyAndReturn({
      where: { id, phase: { in: allowed } },
      data: {
        phase: change.to,
        version: { increment: 1 },
        ...(change.conditions && { conditions: toJson(change.conditions) }),
        ...(deleted && { ...NOWHERE, deletedAt: new Date(), purgeAt: null }),
      },
    });
    if (!row) return undefined;
    if (!change.observed) return toCluster(row);
    const observed = { observedRevision: row.revision };
    return toCluster(await this.#client.cluster.update({ where: { id }, data: observed }));
  }

  /** Replaces the conditions while the cluster is in that phase; undefined where it is not. */
  async setConditions(
    id: ClusterId,
    phase: ClusterPhase,
    conditions: readonly Condition[],
  ): Promise<Cluster | undefined> {
    const [row] = await this.#client.cluster.updateManyAndReturn({
      where: { id, phase },
      data: { version: { increment: 1 }, conditions: toJson(conditions) },
    });
    return row && toCluster(row);
  }

  /**
   * Changes the spec. Whether the cluster may change now is the caller's to know, who holds the
   * row's lock. Throws `cluster_name_taken`.
   */
  async changeSpec(id: ClusterId, change: SpecChange): Promise<Cluster> {
    const { needsOperation, aws, labels, ...columns } = change;
    try {
      const row = await this.#client.cluster.update({
        where: { id },
        data: {
          ...Object.fromEntries(Object.entries(columns).filter(([, value]) => value !== undefined)),
          ...(labels && { labels: { ...labels } }),
          ...(aws && { aws: awsToJson(aws) }),
          ...(needsOperation && { revision: { increment: 1 } }),
          version: { increment: 1 },
        },
      });
      return toCluster(row);
    } catch (error) {
      if (brokenUniqueRule(error) === undefined) throw error;
      throw clusterNameTaken(change.name, error);
    }
  }

  /**
   * Deleted clusters whose data is to go by `now`: those never tried, then those that wait longest.
   * One whose purge failed is among them again after `retry.firstMs`, and after twice as long for each
   * time that it failed again; one whose deletion failed lives.
   */
  async purgeDue(
    now: Date,
    retry: { readonly firstMs: number; readonly maxMs: number },
    limit: number,
  ): Promise<Cluster[]> {
    const due = await this.#client.$queryRaw<{ id: string }[]>`
      SELECT cluster.id FROM cluster
      CROSS JOIN LATERAL (
        SELECT count(*) AS count, max(coalesce(ended_at, updated_at)) AS last FROM operation
        WHERE cluster_id = cluster.id AND kind = 'cluster.purge' AND created_at > coalesce((
          SELECT max(created_at) FROM operation
          WHERE cluster_id = cluster.id AND kind NOT IN ('cluster.purge', ${LOOK})
        ), '-infinity')) AS tries
      WHERE purge_at <= ${now} AND deleted_at IS NULL AND NOT deletion_protection
        AND (phase = 'PENDING_PURGE' OR (phase = 'FAILED' AND tries.count > 0
          AND tries.last <= ${now}::timestamptz - interval '1 millisecond' * least(
            ${retry.maxMs}::float8, ${retry.firstMs}::float8 * power(2, least(tries.count - 1, 30)))))
      ORDER BY phase = 'FAILED', purge_at, cluster.id LIMIT ${limit}`;
    return this.#inOrder(due);
  }

  async #inOrder(ids: readonly { id: string }[]): Promise<Cluster[]> {
    const rows = await this.#client.cluster.findMany({
      where: { id: { in: ids.map(({ id }) => id) } },
    });
    const place = new Map(ids.map(({ id }, index) => [id, index]));
    return rows.toSorted((a, b) => (place.get(a.id) ?? 0) - (place.get(b.id) ?? 0)).map(toCluster);
  }

  /**
   * Clusters that nobody has looked at for drift since `before`, nor tried to: a look that failed is
   * not begun again at once. First those that drifted before an operation changed them, if nobody has
   * tried to look since then; on this machine, only those.
   */
  async driftDue(before: Date, limit: number): Promise<Cluster[]> {
    const due = await this.#client.$queryRaw<{ id: string }[]>`
      SELECT cluster.id FROM cluster
      LEFT JOIN operation AS changing
        ON changing.id = drift_operation_id AND drift_status = 'unknown'
      CROSS JOIN LATERAL (
        SELECT max(created_at) AS last, coalesce(bool_or(NOT done), false) AS under_way
        FROM operation WHERE cluster_id = cluster.id AND kind = ${LOOK}) AS look
      WHERE cluster.phase = ANY(${[...DRIFTING]}) AND deleted_at IS NULL
        AND (region <> 'local' OR changing.id IS NOT NULL) AND NOT look.under_way AND (
          (changing.id IS NOT NULL AND (look.last IS NULL OR look.last < changing.created_at))
          OR (cluster.updated_at < ${before} AND (look.last IS NULL OR look.last < ${before})
            AND (drift_checked_at IS NULL OR drift_checked_at < ${before})))
      ORDER BY changing.id IS NULL, drift_checked_at NULLS FIRST, cluster.id LIMIT ${limit}`;
    return this.#inOrder(due);
  }

  /** Records what was found; the spec's version, and so the ETag, is not touched. */
  async recordDrift(id: ClusterId, drift: ClusterDrift): Promise<void> {
    await this.#client.$executeRaw`
      UPDATE cluster SET drift_status = ${drift.status}, drift_checked_at = ${drift.checkedAt ?? null},
        drift_digest = ${drift.digest ?? null}, drift_operation_id = ${drift.operationId ?? null}
      WHERE id = ${id}`;
  }

  /** Says that the data is being destroyed from now on; the first time counts, and it stays so. */
  async recordDestruction(id: ClusterId, now: Date): Promise<void> {
    await this.#client.cluster.updateMany({
      where: { id, dataDestroyedAt: null },
      data: { dataDestroyedAt: now },
    });
  }

  /** Placements that clusters of every tenant hold now. */
  async placements(): Promise<Placement[]> {
    const rows = await this.#client.$queryRaw<Placed[]>`
      SELECT host, kafka_port AS "kafkaPort", admin_port AS "adminPort",
        tls_port AS "tlsPort" FROM taken_placements()`;
    return rows.flatMap((row) => toPlacement(row) ?? []);
  }

  /** Records where the cluster will live. Throws `PlacementTaken`. */
  async recordPlacement(id: ClusterId, placement: Placement): Promise<void> {
    try {
      const { host, kafkaPort, adminPort = null, tlsPort = null } = placement;
      const data = { host, kafkaPort, adminPort, tlsPort, version: { increment: 1 } };
      await this.#client.cluster.update({ where: { id }, data });
    } catch (error) {
      if (brokenUniqueRule(error) === undefined) throw error;
      const { host: _, ...ports } = placement;
      throw new PlacementTaken(`one of the ports ${Object.values(ports).join(", ")} is taken`);
    }
  }

  async releasePlacement(id: ClusterId): Promise<void> {
    const data = { ...NOWHERE, version: { increment: 1 } };
    await this.#client.cluster.update({ where: { id }, data });
  }
}

const LOOK = "cluster.check_drift" satisfies OperationKind;
const NOWHERE = { host: null, kafkaPort: null, adminPort: null, tlsPort: null };
/** Phases in which nothing is being changed, so that every difference is somebody else's. */
const DRIFTING: readonly ClusterPhase[] = ["RUNNING", "DEGRADED", "PAUSED"];

function toJson(conditions: readonly Condition[]): Prisma.InputJsonValue {
  return conditions.map((condition) => ({ ...condition }));
}

/** JSON has no `undefined`; what is absent stays so. */
function awsToJson(aws: AwsSpec): Prisma.InputJsonObject {
  return JSON.parse(JSON.stringify(aws)) as Prisma.InputJsonObject;
}

function toDrift(row: ClusterRow): ClusterDrift {
  return {
    status: row.driftStatus as DriftStatus,
    checkedAt: row.driftCheckedAt ?? undefined,
    digest: row.driftDigest ?? undefined,
    operationId: (row.driftOperationId as OperationId | null) ?? undefined,
  };
}

type Placed = Pick<ClusterRow, "host" | "kafkaPort" | "adminPort" | "tlsPort">;

function toPlacement(row: Placed) {
  const { host, kafkaPort, adminPort, tlsPort } = row;
  if (host === null || kafkaPort === null) return undefined;
  return {
    ...{ host, kafkaPort },
    ...(adminPort !== null && { adminPort }),
    ...(tlsPort !== null && { tlsPort }),
  } satisfies Placement;
}

function toCluster(row: ClusterRow): Cluster {
  return {
    id: row.id as ClusterId,
    organizationId: row.organizationId as OrganizationId,
    environmentId: row.environmentId as EnvironmentId,
    name: row.name,
    region: row.region as Region,
    size: row.size as ClusterSize,
    labels: row.labels as Record<string, string>,
    phase: row.phase as ClusterPhase,
    conditions: row.conditions as unknown as Condition[],
    revision: row.revision,
    observedRevision: row.observedRevision,
    version: row.version,
    tuning: {
      overrides: row.tuning as TuningOverrides,
      version: row.tuningVersion,
      appliedVersion: row.tuningApplied,
      problem: row.tuningProblem ?? undefined,
      updatedAt: row.tuningUpdatedAt ?? undefined,
    },
    placement: toPlacement(row),
    deletionProtection: row.deletionProtection,
    plaintextListener: row.plaintextListener,
    brokers: row.brokers,
    zones: row.zones,
    aws: (row.aws as AwsSpec | null) ?? undefined,
    localWalBytes: row.localWalBytes === null ? undefined : Number(row.localWalBytes),
    paused: row.paused,
    purgeAt: row.purgeAt ?? undefined,
    dataDestroyedAt: row.dataDestroyedAt ?? undefined,
    drift: toDrift(row),
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
    deletedAt: row.deletedAt ?? undefined,
  };
}
