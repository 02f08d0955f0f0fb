import { TuningPage } from "../../../../../tuning/tuning-page.tsx";

export default async function ClusterTuningPage(props: { params: Promise<{ clusterId: string }> }) {
  return <TuningPage clusterId={(await props.params).clusterId} />;
}
