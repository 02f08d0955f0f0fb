import { Alert } from "@mantine/core";
import type { Cluster } from "@millrace/contract";
import { IconPlugConnectedX } from "@tabler/icons-react";
import { exactMoment } from "../format/time.ts";
import { brokersWithoutContact } from "./broker-state.ts";

/** Since when brokers have had no connection to the control plane; nothing while all are connected. */
export function ContactNote({ cluster }: { cluster: Cluster }) {
  const lost = brokersWithoutContact(cluster);
  const [first] = lost;
  if (first === undefined) return null;
  const only = cluster.spec.brokers === 1;
  const title = lost
    .map(({ broker_id, since }) => {
      const what = only ? "No contact" : `No contact with broker ${broker_id}`;
      return since === null ? what : `${what} since ${exactMoment(since)}`;
    })
    .join(", ");
  return (
    <Alert
      color="orange"
      icon={<IconPlugConnectedX size={18} />}
      role="status"
      title={title}
      // Orange on light orange is hard to read.
      styles={{ title: { color: "var(--mantine-color-text)" } }}
    >
      {only
        ? "The broker's connection to the control plane is down. Clients may still be served. Current values, topics and settings are available when it is connected again."
        : "The connection to the control plane is down. Clients may still be served."}
    </Alert>
  );
}
