import { CatchUpPage } from "../../../../../catch-up/catch-up-page.tsx";
import { titleOf } from "../../../../../cluster/cluster-title.ts";

export const generateMetadata = titleOf("Catch-up");

/** `?group=` names the consumer group to begin with. */
export default async function ClusterCatchUpPage(props: {
  params: Promise<{ clusterId: string }>;
  searchParams: Promise<{ group?: string | string[] }>;
}) {
  const [{ clusterId }, { group }] = await Promise.all([props.params, props.searchParams]);
  return (
    <CatchUpPage clusterId={clusterId} wanted={typeof group === "string" ? group : undefined} />
  );
}
