/** What a described cluster would cost: the same sum that the API and the stack come to. */
import {
  type ClusterSize,
  type CostEstimate,
  DEFAULT_AWS_NETWORK,
  estimateMonthly,
} from "@millrace/domain";
import { type ClusterDraft, checkDraft, onAws, withSize } from "./cluster-draft.ts";
import { walVolumeOf } from "./wal-draft.ts";

/** Nothing where the cluster costs nothing, or its volume cannot be had. */
export function estimateOf(draft: ClusterDraft): CostEstimate | undefined {
  if (!onAws(draft)) return undefined;
  if (Object.keys(checkDraft({ ...draft, name: "any" })).some((at) => at.startsWith("/wal"))) {
    return undefined;
  }
  const kmsKeyArn = draft.kmsKeyArn.trim();
  return estimateMonthly({
    region: draft.region,
    size: draft.size,
    brokers: draft.brokers,
    zones: undefined,
    paused: false,
    retained: false,
    aws: {
      wal: walVolumeOf(draft.wal),
      network: {
        ...DEFAULT_AWS_NETWORK,
        vpcId: draft.network.vpc === "existing" ? draft.network.vpcId : undefined,
      },
      storage: { kmsKeyArn: kmsKeyArn === "" ? undefined : kmsKeyArn },
    },
  });
}

/** What the cluster would cost in another size. */
export function monthlyIn(draft: ClusterDraft, size: ClusterSize): number | undefined {
  return estimateOf(withSize(draft, size))?.total;
}
