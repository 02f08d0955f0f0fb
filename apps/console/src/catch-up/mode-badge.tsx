import { Badge } from "@mantine/core";
import type { CatchUpMode } from "@millrace/domain";
import {
  IconCircleCheck,
  IconPlayerPause,
  IconPlayerTrackNext,
  IconTrendingDown,
} from "@tabler/icons-react";
import { MODE_WORDS } from "./backlog.ts";

const SIGNS = {
  tail: ["green", IconCircleCheck],
  catch_up: ["race", IconPlayerTrackNext],
  falling_behind: ["orange", IconTrendingDown],
  idle: ["gray", IconPlayerPause],
} as const satisfies Record<CatchUpMode, readonly [string, typeof IconCircleCheck]>;

/** The colour of a mode; always shown with its word. */
export function modeColor(mode: CatchUpMode): string {
  return SIGNS[mode][0];
}

/** A mode as a word, an icon and a colour. */
export function ModeBadge({ mode }: { mode: CatchUpMode }) {
  const [color, Icon] = SIGNS[mode];
  return (
    <Badge
      variant="outline"
      color={color}
      c="inherit"
      tt="none"
      fw={600}
      leftSection={<Icon size={12} />}
      data-mode={mode}
    >
      {MODE_WORDS[mode]}
    </Badge>
  );
}
