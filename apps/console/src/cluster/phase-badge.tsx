import { Badge } from "@mantine/core";
import type { Cluster } from "@millrace/contract";

type Phase = Cluster["status"]["phase"];

const COLORS: Record<Phase, string> = {
  PROVISIONING: "blue",
  RUNNING: "green",
  UPDATING: "blue",
  DEGRADED: "orange",
  FAILED: "red",
  DELETING: "gray",
};

/** A cluster's phase, as a word and a colour. */
export function PhaseBadge({ phase }: { phase: Phase }) {
  return (
    <Badge
      variant="dot"
      color={COLORS[phase]}
      tt="none"
      fw={600}
      size="lg"
      data-phase={phase}
      c="inherit"
    >
      {phase.charAt(0) + phase.slice(1).toLowerCase()}
    </Badge>
  );
}
