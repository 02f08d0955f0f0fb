/** Why a group falls behind and what to change, in words. Pure. */
import type { CatchUpCause } from "@millrace/domain";

interface CauseText {
  readonly title: string;
  /** What to change. */
  readonly remedy: string;
}

export const CAUSE_TEXTS: Record<CatchUpCause, CauseText> = {
  ingress_limit: {
    title: "Limited by the ingress baseline",
    remedy:
      "Reads from object storage wait for the ingress limit. Raise the ingress baseline, or enlarge the block cache so that blocks are read only once.",
  },
  egress_limit: {
    title: "Limited by the egress baseline",
    remedy: "Reads wait for the egress limit. Raise the egress baseline.",
  },
  bucket: {
    title: "Object storage is slow or fails",
    remedy:
      "Check the requests below and the storage provider's status. A larger prefetch window hides latency.",
  },
  skew: {
    title: "Some partitions are much slower than the rest",
    remedy:
      "The group keeps up with its other partitions. Look for hot keys, or for one slow member; more partitions or another key spread the load.",
  },
  consumer: {
    title: "The consumers read slower than producers write",
    remedy:
      "The broker delays no reads of this cluster. Add members up to the number of partitions, or make processing faster; if the read rate is 0, check that the members are running.",
  },
};
