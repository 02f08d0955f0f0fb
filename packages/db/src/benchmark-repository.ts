import {
  BENCHMARK_SAMPLES_MAX,
  type Benchmark,
  type BenchmarkId,
  type BenchmarkReport,
  type BenchmarkSample,
  type BenchmarkWorkload,
  type ClusterId,
  type ClusterPhase,
  type ClusterSize,
  type ErrorCode,
  type OperationId,
  type OperationPhase,
  type OrganizationId,
  type TuningValues,
} from "@millrace/domain";
import type { Client } from "./client.ts";
import type { Prisma } from "./generated/client.ts";
import { olderThan, type Page, type PageRequest, pageOf } from "./page.ts";

const WITH_OPERATION = { operation: true } as const;
type BenchmarkRow = Prisma.BenchmarkGetPayload<{ include: typeof WITH_OPERATION }>;

/** A benchmark as it is asked for. */
export type NewBenchmark = Pick<
  Benchmark,
  "id" | "clusterId" | "operationId" | "request" | "bytesPerSecond" | "size" | "by" | "tuning"
> & { readonly createdAt: Date };

/** Benchmarks of clusters, with what they found. The caller has checked the tenant. */
export class BenchmarkRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  async create({ request, by, tuning, bytesPerSecond, ...plain }: NewBenchmark): Promise<void> {
    await this.#client.benchmark.create({
      data: {
        ...plain,
        workload: request.workload,
        durationSeconds: request.durationSeconds,
        recordSizeBytes: request.recordSizeBytes,
        askedBytesPerSecond: request.bytesPerSecond ?? null,
        bytesPerSecond,
        partitions: request.partitions,
        principalKind: by.kind,
        principalId: by.id,
        principalName: by.name,
        tuning: { ...tuning.values },
        tuningVersion: tuning.version,
        tuningChanges: tuning.changes.map(({ knob, from, to }) => ({ knob, from, to })),
      },
    });
  }

  async get(clusterId: ClusterId, id: BenchmarkId): Promise<Benchmark | undefined> {
    const where = { id, clusterId };
    const row = await this.#client.benchmark.findFirst({ where, include: WITH_OPERATION });
    return row ? toBenchmark(row) : undefined;
  }

  async ofOperation(operationId: OperationId): Promise<Benchmark | undefined> {
    const where = { operationId };
    const row = await this.#client.benchmark.findUnique({ where, include: WITH_OPERATION });
    return row ? toBenchmark(row) : undefined;
  }

  /** Until the transaction ends, nobody else starts a benchmark. */
  async lockStart(): Promise<void> {
    await this.#client.$queryRaw`
      SELECT pg_advisory_xact_lock(hashtextextended('benchmark start', 0))::text`;
  }

  /** What an organization asked for since then, of clusters that still exist. */
  async startedSince(
    organizationId: OrganizationId,
    since: Date,
  ): Promise<{ runs: number; bytes: number }> {
    const [row] = await this.#client.$queryRaw<{ runs: bigint; bytes: bigint }[]>`
      SELECT count(*) AS runs,
        COALESCE(sum(b.bytes_per_second * b.duration_seconds), 0)::bigint AS bytes
      FROM benchmark b JOIN operation o ON o.id = b.operation_id
      WHERE o.organization_id = ${organizationId} AND b.created_at >= ${since}`;
    return { runs: Number(row?.runs ?? 0), bytes: Number(row?.bytes ?? 0) };
  }

  /** Newest first. */
  async list(clusterId: ClusterId, page: PageRequest): Promise<Page<Benchmark>> {
    const rows = await this.#client.benchmark.findMany({
      where: { clusterId, ...olderThan(page.after) },
      include: WITH_OPERATION,
      orderBy: [{ createdAt: "desc" }, { id: "desc" }],
      take: page.limit + 1,
    });
    return pageOf(rows, page.limit, toBenchmark);
  }

  /** The tuning of the newest benchmark that has a report. */
  async lastTuning(clusterId: ClusterId): Promise<TuningValues | undefined> {
    const [row] = await this.#client.$queryRaw<{ tuning: TuningValues }[]>`
      SELECT tuning FROM benchmark WHERE cluster_id = ${clusterId} AND report IS NOT NULL
      ORDER BY created_at DESC, id DESC LIMIT 1`;
    return row?.tuning;
  }

  /** In order. */
  async samples(id: BenchmarkId): Promise<BenchmarkSample[]> {
    const rows = await this.#client.benchmarkSample.findMany({
      where: { benchmarkId: id },
      orderBy: { seq: "asc" },
    });
    return rows.map(({ sample }) => sample as unknown as BenchmarkSample);
  }

  /** Keeps a sample; those beyond the bound are not kept. Within the fence of the operation. */
  async addSample(id: BenchmarkId, seq: number, sample: BenchmarkSample): Promise<void> {
    if (seq >= BENCHMARK_SAMPLES_MAX) return;
    await this.#client.benchmarkSample.create({
      data: { benchmarkId: id, seq, sample: toJson(sample) },
    });
  }

  /** A load starts over: what an earlier attempt measured is no part of it. */
  async forgetSamples(id: BenchmarkId): Promise<void> {
    await this.#client.benchmarkSample.deleteMany({ where: { benchmarkId: id } });
  }

  async saveReport(
    id: BenchmarkId,
    { report, tuningVersion }: { report: BenchmarkReport; tuningVersion: number },
  ): Promise<void> {
    await this.#client.benchmark.update({
      where: { id },
      data: {
        report: toJson(report),
        tuningVersionAtEnd: tuningVersion,
      },
    });
  }

  /** The topic is about to be created. */
  async markTopicCreated(id: BenchmarkId): Promise<void> {
    await this.#client.benchmark.update({ where: { id }, data: { topicDeletedAt: null } });
  }

  async markTopicDeleted(id: BenchmarkId, at: Date): Promise<void> {
    await this.#client.benchmark.update({ where: { id }, data: { topicDeletedAt: at } });
  }

  async isTopicDeleted(id: BenchmarkId): Promise<boolean> {
    const select = { topicDeletedAt: true };
    const row = await this.#client.benchmark.findUnique({ where: { id }, select });
    return row === null || row.topicDeletedAt !== null;
  }

  /**
   * Benchmarks whose operation is done and whose topic may still exist, of clusters in these phases: any
   * one of each cluster, so that a broker that is down does not keep the others' topics.
   */
  async withTopicLeft(phases: readonly ClusterPhase[], limit: number): Promise<Benchmark[]> {
    const chosen = await this.#client.$queryRaw<{ id: string }[]>`
      SELECT id FROM (
        SELECT DISTINCT ON (b.cluster_id) b.id FROM benchmark b
        JOIN operation o ON o.id = b.operation_id
        JOIN cluster c ON c.id = b.cluster_id
        WHERE b.topic_deleted_at IS NULL AND o.done AND c.phase = ANY(${[...phases]})
        ORDER BY b.cluster_id, random()
      ) one_each ORDER BY random() LIMIT ${limit}`;
    const where = { id: { in: chosen.map(({ id }) => id) } };
    const rows = await this.#client.benchmark.findMany({ where, include: WITH_OPERATION });
    return rows.map(toBenchmark);
  }

  /** Removes what of a cluster is beyond the newest `keep`, but not what still has a topic. */
  async prune(clusterId: ClusterId, keep: number): Promise<void> {
    await this.#client.$executeRaw`
      DELETE FROM benchmark WHERE id IN (
        SELECT id FROM benchmark WHERE cluster_id = ${clusterId}
        ORDER BY created_at DESC, id DESC OFFSET ${keep}) AND topic_deleted_at IS NOT NULL`;
  }

  /** The cluster is gone. */
  async forget(clusterId: ClusterId): Promise<void> {
    await this.#client.benchmark.deleteMany({ where: { clusterId } });
  }
}

/** JSON has no `undefined`; what is absent stays so. */
function toJson(value: BenchmarkSample | BenchmarkReport): Prisma.InputJsonObject {
  return JSON.parse(JSON.stringify(value)) as Prisma.InputJsonObject;
}

function toBenchmark(row: BenchmarkRow): Benchmark {
  const { operation } = row;
  return {
    id: row.id as BenchmarkId,
    clusterId: row.clusterId as ClusterId,
    operationId: row.operationId as OperationId,
    request: {
      workload: row.workload as BenchmarkWorkload,
      durationSeconds: row.durationSeconds,
      recordSizeBytes: row.recordSizeBytes,
      bytesPerSecond:
        row.askedBytesPerSecond === null ? undefined : Number(row.askedBytesPerSecond),
      partitions: row.partitions,
    },
    bytesPerSecond: Number(row.bytesPerSecond),
    size: row.size as ClusterSize,
    by: {
      kind: row.principalKind === "api_key" ? "api_key" : "user",
      id: row.principalId,
      name: row.principalName,
    },
    tuning: {
      version: row.tuningVersion,
      values: row.tuning as unknown as TuningValues,
      changes: row.tuningChanges as unknown as Benchmark["tuning"]["changes"],
    },
    tuningVersionAtEnd: row.tuningVersionAtEnd ?? undefined,
    report: (row.report as BenchmarkReport | null) ?? undefined,
    createdAt: row.createdAt,
    phase: operation.phase as OperationPhase,
    error:
      operation.errorCode === null
        ? undefined
        : {
            code: operation.errorCode as ErrorCode,
            message: operation.errorMessage ?? "",
            step: operation.errorStep ?? undefined,
          },
    startedAt: operation.startedAt ?? undefined,
    endedAt: operation.endedAt ?? undefined,
  };
}
