import { Alert, Code, Text } from "@mantine/core";
import type { Cluster } from "@millrace/contract";
import { CANNOT_START } from "@millrace/domain";
import { isBrokerDown } from "./broker-state.ts";

/** Why the broker does not serve, or how often it was restarted of late; nothing while all is well. */
export function BrokerNote({ cluster }: { cluster: Cluster }) {
  const { phase, conditions } = cluster.status;
  const [condition] = conditions;
  if (isBrokerDown(cluster)) {
    return (
      <Alert
        color="red"
        role="status"
        title={
          condition?.reason === CANNOT_START ? "The broker cannot start" : "The broker is down"
        }
      >
        {condition?.message ?? "The broker does not respond."}
        {condition?.detail && <Reason text={condition.detail} />}
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

/** What the broker itself wrote, folded: it names files and settings rather than what to do. */
function Reason({ text }: { text: string }) {
  return (
    <details style={{ marginTop: 8 }}>
      <summary>
        <Text span fz="sm">
          What the broker reported
        </Text>
      </summary>
      <Code block mt={4} style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>
        {text}
      </Code>
    </details>
  );
}
