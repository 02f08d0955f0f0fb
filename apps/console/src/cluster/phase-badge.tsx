import { Badge } from "@mantine/core";
import type { Cluster } from "@millrace/contract";

type Phase = Cluster["status"]["phase"];

const PHASES: Record<Phase, { word: string; color: string }> = {
  PROVISIONING: { word: "Provisioning", color: "blue" },
  RUNNING: { word: "Running", color: "green" },
  PAUSED: { word: "Paused", color: "violet" },
  UPDATING: { word: "Updating", color: "blue" },
  DEGRADED: { word: "Degraded", color: "orange" },
  FAILED: { word: "Failed", color: "red" },
  DELETING: { word: "Deleting", color: "gray" },
  PENDING_PURGE: { word: "Deleted, data kept", color: "gray" },
};

/** A cluster's phase, as a word and a colour. */
export function PhaseBadge({ phase }: { phase: Phase }) {
  return (
    <Badge
      variant="dot"
      color={PHASES[phase].color}
      tt="none"
      fw={600}
      size="lg"
      // In a narrow table it would shrink to an empty oval.
      miw="max-content"
      data-phase={phase}
      c="inherit"
    >
      {PHASES[phase].word}
    </Badge>
  );
}
