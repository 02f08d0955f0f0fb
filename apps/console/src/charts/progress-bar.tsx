import { Progress, type ProgressRootProps } from "@mantine/core";

interface ProgressBarProps extends Pick<ProgressRootProps, "size" | "flex" | "mt" | "color"> {
  /** 0 to 100; undefined where it is unknown. */
  percent: number | undefined;
  label: string;
  /** The value as text. */
  text: string;
}

/** A progress bar with a text value; Mantine's own announces a percentage only. */
export function ProgressBar({ percent, label, text, color, ...root }: ProgressBarProps) {
  return (
    <Progress.Root
      {...root}
      bg="var(--chart-grid)"
      role="progressbar"
      aria-label={label}
      aria-valuetext={text}
      aria-valuemin={0}
      aria-valuemax={100}
      {...(percent !== undefined && { "aria-valuenow": Math.floor(percent) })}
    >
      <Progress.Section value={percent ?? 0} color={color} withAria={false} />
    </Progress.Root>
  );
}
