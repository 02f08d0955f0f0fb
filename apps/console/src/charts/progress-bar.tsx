import { Progress, type ProgressRootProps } from "@mantine/core";

interface ProgressBarProps extends Pick<ProgressRootProps, "size" | "flex" | "mt" | "color"> {
  /** 0 to 100; undefined where nobody knows, which the bar says by claiming no value. */
  percent: number | undefined;
  label: string;
  /** What it shows, in words. */
  text: string;
}

/** A bar that says in words what it shows; Mantine's own says a percentage only. */
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
