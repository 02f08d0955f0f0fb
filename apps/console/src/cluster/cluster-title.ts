/** The browser's title of a cluster's page: which page, of which cluster. */
import type { Metadata } from "next";
import { headers } from "next/headers";
import { apiUrl } from "../env.ts";

/** A title is worth no longer wait. */
const TIMEOUT_MS = 2_000;

/** `Topics · orders`; the page alone where the cluster cannot be read. */
export async function clusterTitle(page: string, clusterId: string): Promise<Metadata> {
  const name = await nameOf(clusterId, (await headers()).get("cookie") ?? "");
  return { title: name === undefined ? page : `${page} · ${name}` };
}

/** `generateMetadata` of one of a cluster's pages. */
export function titleOf(page: string) {
  return async (props: { params: Promise<{ clusterId: string }> }): Promise<Metadata> =>
    clusterTitle(page, (await props.params).clusterId);
}

async function nameOf(clusterId: string, cookie: string): Promise<string | undefined> {
  try {
    const answer = await fetch(new URL(`/v1/clusters/${encodeURIComponent(clusterId)}`, apiUrl()), {
      headers: { cookie },
      cache: "no-store",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const cluster: { spec?: { name?: unknown } } = answer.ok ? await answer.json() : {};
    return typeof cluster.spec?.name === "string" ? cluster.spec.name : undefined;
  } catch {
    return undefined;
  }
}
