import { ClusterTitle } from "../../../../../cluster/cluster-title.tsx";
import { TuningPage } from "../../../../../tuning/tuning-page.tsx";

export default async function ClusterTuningPage(props: { params: Promise<{ clusterId: string }> }) {
  const { clusterId } = await props.params;
  return (
    <>
      <ClusterTitle clusterId={clusterId} page="Tuning" />
      <TuningPage clusterId={clusterId} />
    </>
  );
}
