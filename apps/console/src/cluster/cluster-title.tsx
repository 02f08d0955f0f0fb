"use client";

import { PageTitle } from "../shell/page-title.tsx";
import { useCluster } from "./live.ts";

/** `Topics · orders`; the page alone while the cluster's name is not known. */
export function ClusterTitle({ clusterId, page }: { clusterId: string; page: string }) {
  const { data } = useCluster(clusterId);
  return <PageTitle>{data === undefined ? page : `${page} · ${data.spec.name}`}</PageTitle>;
}
