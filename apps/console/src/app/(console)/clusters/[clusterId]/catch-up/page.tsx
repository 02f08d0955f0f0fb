import { CatchUpPage } from "../../../../../catch-up/catch-up-page.tsx";
import { ClusterTitle } from "../../../../../cluster/cluster-title.tsx";

/** `?group=` names the consumer group to begin with. */
export default async function ClusterCatchUpPage(props: {
  params: Promise<{ clusterId: string }>;
  searchParams: Promise<{ group?: string | string[] }>;
}) {
  const [{ clusterId }, { group }] = await Promise.all([props.params, props.searchParams]);
  return (
    <>
      <ClusterTitle clusterId={clusterId} page="Catch-up" />
      <CatchUpPage clusterId={clusterId} wanted={typeof group === "string" ? group : undefined} />
    </>
  );
}
