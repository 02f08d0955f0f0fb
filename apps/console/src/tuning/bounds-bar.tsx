import { Box, Group, Text } from "@mantine/core";
import type { TuningSetting } from "@millrace/contract";
import type { TuningKnob } from "@millrace/domain";
import { valueText } from "./knobs.ts";

const HEIGHT = 6;
/** The value's mark, longer than the bar is high; not a thumb, since nothing can be dragged. */
const MARK = { width: 3, height: 12 };
/** Where nothing is allowed, the scale begins at this part of the upper bound. */
const SMALLEST_PART = 1 / 4_096;

/**
 * Where a value lies between its bounds. Amounts span powers of two, so the scale is logarithmic.
 * Decoration: the numbers stand below it.
 */
export function BoundsBar(props: {
  knob: TuningKnob;
  setting: TuningSetting;
  /** The value that is being chosen. */
  newValue: number | undefined;
}) {
  const { knob, setting, newValue } = props;
  const at = (value: number) => `${place(value, setting) * 100}%`;
  const shown = newValue ?? setting.value;
  return (
    <Box py={4} maw={420}>
      <Box
        pos="relative"
        h={HEIGHT}
        my={6}
        bg="var(--chart-grid)"
        style={{ borderRadius: HEIGHT }}
        aria-hidden="true"
      >
        <Box
          pos="absolute"
          h={HEIGHT}
          w={at(shown)}
          bg="var(--chart-in)"
          style={{ borderRadius: HEIGHT }}
        />
        <Box
          pos="absolute"
          left={at(setting.default)}
          top={-3}
          w={2}
          h={HEIGHT + 6}
          bg="var(--text-quiet)"
          style={{ transform: "translateX(-1px)" }}
        />
        <Box
          pos="absolute"
          left={at(shown)}
          top={(HEIGHT - MARK.height) / 2}
          w={MARK.width}
          h={MARK.height}
          bg="var(--chart-in)"
          data-mark={shown}
          style={{ transform: `translateX(-${MARK.width / 2}px)` }}
        />
      </Box>
      <Group justify="space-between" wrap="nowrap">
        <Text fz="xs" className="quiet number">
          min {setting.min === 0 ? 0 : valueText(knob, setting.min)}
        </Text>
        <Text fz="xs" className="quiet number">
          max {valueText(knob, setting.max)}
        </Text>
      </Group>
    </Box>
  );
}

/** 0 at the lower bound, 1 at the upper one; a baseline without a bound is beyond every other. */
export function place(value: number, { min, max, unit }: TuningSetting): number {
  if (unit === "bytes_per_second" && value === 0) return 1;
  const low = Math.max(min, max * SMALLEST_PART);
  if (max <= low || value <= low) return 0;
  return Math.min(1, Math.log(value / low) / Math.log(max / low));
}
