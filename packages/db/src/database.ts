import type { OperationId } from "@millrace/domain";
import { ApiKeyRepository } from "./api-key-repository.ts";
import { BenchmarkRepository } from "./benchmark-repository.ts";
import { type Client, createClient } from "./client.ts";
import { ClusterRepository } from "./cluster-repository.ts";
import type { PrismaClient } from "./generated/client.ts";
import { IdempotencyRepository } from "./idempotency-repository.ts";
import { MetricRepository } from "./metric-repository.ts";
import { OperationJournal } from "./operation-journal.ts";
import { OperationPlanRepository } from "./operation-plan-repository.ts";
import { OperationQueue } from "./operation-queue.ts";
import { OperationRepository } from "./operation-repository.ts";
import { OperationSignal } from "./operation-signal.ts";
import { OrganizationRepository } from "./organization-repository.ts";
import { RateLimitRepository } from "./rate-limit-repository.ts";
import { TerraformStateRepository } from "./terraform-state-repository.ts";
import { TuningRepository } from "./tuning-repository.ts";

/** All repositories over one connection or one transaction. */
export interface Repositories {
  readonly organizations: OrganizationRepository;
  readonly apiKeys: ApiKeyRepository;
  readonly clusters: ClusterRepository;
  readonly operations: OperationRepository;
  readonly journal: OperationJournal;
  readonly operationPlans: OperationPlanRepository;
  readonly terraformStates: TerraformStateRepository;
  readonly idempotency: IdempotencyRepository;
  readonly metrics: MetricRepository;
  readonly rateLimits: RateLimitRepository;
  readonly tuning: TuningRepository;
  readonly benchmarks: BenchmarkRepository;
}

export interface Transaction extends Repositories {
  /** Has the operation delivered to a worker when the transaction commits. */
  deliver(id: OperationId): Promise<void>;
}

/**
 * The tables of users, sessions and credentials, for the one library that owns their meaning.
 * Opaque on purpose: nothing else may look inside.
 */
export interface IdentityStore {
  readonly kind: "identity-store";
}

export interface Database extends Repositories {
  /** Runs `work` in one transaction: it commits when `work` resolves, and leaves no trace else. */
  transaction<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
  readonly queue: OperationQueue;
  readonly operationSignal: OperationSignal;
  readonly identityStore: IdentityStore;
  /** Throws where the database does not answer. */
  ping(): Promise<void>;
  close(): Promise<void>;
}

export interface DatabaseOptions {
  readonly url: string;
  /** Told of faults of the background connections, which recover by themselves. */
  readonly onError?: (error: Error) => void;
}

/** Opens the database of a migrated control plane. Connections are made as they are needed. */
export function openDatabase(options: DatabaseOptions): Database {
  const client = createClient(options.url);
  const queue = new OperationQueue(options.url, options.onError ?? (() => {}));
  const operationSignal = new OperationSignal(options.url);
  return {
    ...repositoriesOf(client),
    queue,
    operationSignal,
    identityStore: client as unknown as IdentityStore,
    transaction: (work) => inTransaction(client, queue, work),
    async ping() {
      await client.$queryRaw`SELECT 1`;
    },
    async close() {
      await Promise.all([queue.stop(), operationSignal.close()]);
      await client.$disconnect();
    },
  };
}

function inTransaction<T>(
  client: PrismaClient,
  queue: OperationQueue,
  work: (transaction: Transaction) => Promise<T>,
): Promise<T> {
  return client.$transaction((inner) =>
    work({ ...repositoriesOf(inner), deliver: (id) => queue.send(id, inner) }),
  );
}

function repositoriesOf(client: Client): Repositories {
  return {
    organizations: new OrganizationRepository(client),
    apiKeys: new ApiKeyRepository(client),
    clusters: new ClusterRepository(client),
    operations: new OperationRepository(client),
    journal: new OperationJournal(client),
    operationPlans: new OperationPlanRepository(client),
    terraformStates: new TerraformStateRepository(client),
    idempotency: new IdempotencyRepository(client),
    metrics: new MetricRepository(client),
    rateLimits: new RateLimitRepository(client),
    tuning: new TuningRepository(client),
    benchmarks: new BenchmarkRepository(client),
  };
}
