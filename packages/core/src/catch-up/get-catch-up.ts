import type { CatchUpAnswer } from "@millrace/broker-admin";
import {
  assertServing,
  type CatchUpCause,
  type ClusterId,
  catchUpCause,
  type Principal,
  type ReadPressure,
} from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";

type Direction = CatchUpAnswer["network"]["ingress"];

/** A broker's answer, with the cause for each group that falls behind. */
export interface CatchUpView extends Omit<CatchUpAnswer, "groups"> {
  readonly groups: (CatchUpAnswer["groups"][number] & { readonly cause: CatchUpCause | null })[];
}

/**
 * How far each group of a cluster is behind, in its broker's own words, and why. Throws `not_found`,
 * `cluster_not_ready`, `broker_unavailable`, and `broker_failed` where it is of another version.
 */
export async function getCatchUp(
  core: Core,
  principal: Principal,
  id: ClusterId,
): Promise<CatchUpView> {
  const cluster = await requireCluster(core, principal, id);
  assertServing(cluster);
  const answer = await atBroker(undefined, async () => (await core.brokerHttp(cluster)).catchUp());
  const pressure = pressureOf(answer);
  const groups = answer.groups.map((group) => ({
    ...group,
    cause:
      catchUpCause({ ...group, readBytesPerSecond: group.read_bytes_per_second }, pressure) ?? null,
  }));
  return { ...answer, groups };
}

function pressureOf({ network, bucket_reads }: CatchUpAnswer): ReadPressure {
  return {
    ingressWaiting: waitingReaders(network.ingress),
    egressWaiting: waitingReaders(network.egress),
    bucketReadsPerSecond: bucket_reads.per_second,
    bucketFailedPerSecond: bucket_reads.failed_per_second,
    bucketSecondsMean: bucket_reads.seconds_mean ?? undefined,
  };
}

/** Reads that somebody waits for: prefetch and compaction may wait without slowing anybody down. */
function waitingReaders({ baseline_bytes_per_second, tiers }: Direction): number {
  if (baseline_bytes_per_second === null) return 0;
  const readers = tiers.filter(({ tier }) => tier === "tail_read" || tier === "catch_up_miss");
  return readers.reduce((sum, { waiting_mean }) => sum + waiting_mean, 0);
}
