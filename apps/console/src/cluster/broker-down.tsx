"use client";

import { Empty } from "../shell/empty.tsx";
import { isBrokerDown } from "./broker-state.ts";
import { useCluster } from "./live.ts";

/** Whether pages must not ask the broker, because the cluster's status says that it does not answer. */
export function useBrokerDown(clusterId: string): boolean {
  const { data: cluster } = useCluster(clusterId);
  return cluster !== undefined && isBrokerDown(cluster);
}

/** In the place of what a page reads from the broker. The note above the tabs says what to do. */
export function BrokerDown({ what }: { what: string }) {
  return <Empty title="The broker is down" text={`${what} are shown when it serves again.`} />;
}
