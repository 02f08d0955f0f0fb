import { titleOf } from "../../../../../cluster/cluster-title.ts";
import { TuningPage } from "../../../../../tuning/tuning-page.tsx";

export const generateMetadata = titleOf("Tuning");

export default async function ClusterTuningPage(props: { params: Promise<{ clusterId: string }> }) {
  return <TuningPage clusterId={(await props.params).clusterId} />;
}
