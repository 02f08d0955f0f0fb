import { Badge } from "@mantine/core";
import type { Drift } from "@millrace/contract";

const STATUSES: Record<Drift["status"], { word: string; color: string }> = {
  unknown: { word: "not checked yet", color: "gray" },
  in_sync: { word: "none", color: "green" },
  drifted: { word: "found", color: "orange" },
  accepted: { word: "accepted", color: "gray" },
};

/** The drift status as a word and a colour; under a title that says drift, without the word. */
export function DriftBadge(props: { status: Drift["status"]; titled?: boolean }) {
  const { status, titled = false } = props;
  const { word, color } = STATUSES[status];
  return (
    <Badge
      variant="outline"
      color={color}
      c="inherit"
      tt="none"
      fw={500}
      size="lg"
      data-drift={status}
    >
      {titled ? word : `Drift: ${word}`}
    </Badge>
  );
}
