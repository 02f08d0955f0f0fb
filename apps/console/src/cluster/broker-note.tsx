import { Alert } from "@mantine/core";
import type { Cluster } from "@millrace/contract";

/** Why the broker does not serve, or how often it was restarted of late; nothing while all is well. */
export function BrokerNote({ cluster }: { cluster: Cluster }) {
  const { phase, conditions } = cluster.status;
  const [condition] = conditions;
  if (phase === "DEGRADED") {
    const cannotStart = condition?.reason === "BrokerCannotStart";
    return (
      <Alert
        color="red"
        role="status"
        title={cannotStart ? "The broker cannot start" : "The broker is down"}
      >
        {condition?.message ?? "The broker does not respond."}
      </Alert>
    );
  }
  if (phase === "RUNNING" && condition?.reason === "ServingAfterRestarts") {
    return (
      <Alert color="yellow" role="status" title="The broker was restarted">
        {condition.message}
      </Alert>
    );
  }
  return null;
}
