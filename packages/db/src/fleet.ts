import { AuditRepository } from "./audit-repository.ts";
import { BenchmarkRepository } from "./benchmark-repository.ts";
import { ClusterRepository } from "./cluster-repository.ts";
import type { PrismaClient } from "./generated/client.ts";
import { IdempotencyRepository } from "./idempotency-repository.ts";
import { MetricRepository } from "./metric-repository.ts";
import { OperationJournal } from "./operation-journal.ts";
import { OperationRepository } from "./operation-repository.ts";
import { ScrapeLeaseRepository } from "./scrape-lease-repository.ts";
import { eachIn, fleetScope } from "./tenancy.ts";
import { TerraformStateRepository } from "./terraform-state-repository.ts";

/**
 * What crosses tenants in a worker: finding what is to be done, and removing what is old. Everything
 * else, and every other write, goes through the tenant that the row found here names.
 */
export interface Fleet {
  readonly audit: Pick<AuditRepository, "checkDue">;
  readonly clusters: Pick<ClusterRepository, "load" | "inPhases" | "purgeDue" | "driftDue">;
  readonly operations: Pick<
    OperationRepository,
    "load" | "countUnderWay" | "waitingSince" | "deleteOldDriftChecks"
  >;
  readonly journal: Pick<OperationJournal, "unclaimed" | "providerOf">;
  readonly benchmarks: Pick<BenchmarkRepository, "withTopicLeft">;
  readonly terraformStates: Pick<TerraformStateRepository, "clusterIds">;
  readonly metrics: Pick<MetricRepository, "preparePartitions" | "dropPartitions">;
  readonly scrapeLeases: Pick<ScrapeLeaseRepository, "claim" | "release">;
  readonly idempotency: Pick<IdempotencyRepository, "deleteExpired">;
}

export function fleetIn(client: PrismaClient): Fleet {
  const scope = fleetScope(client);
  return {
    audit: eachIn(scope, AuditRepository),
    clusters: eachIn(scope, ClusterRepository),
    operations: eachIn(scope, OperationRepository),
    journal: eachIn(scope, OperationJournal),
    benchmarks: eachIn(scope, BenchmarkRepository),
    terraformStates: eachIn(scope, TerraformStateRepository),
    metrics: eachIn(scope, MetricRepository),
    scrapeLeases: eachIn(scope, ScrapeLeaseRepository),
    idempotency: eachIn(scope, IdempotencyRepository),
  };
}
