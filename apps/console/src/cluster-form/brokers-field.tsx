import { NumberInput } from "@mantine/core";
import { BROKERS_PER_CLUSTER_MAX } from "@millrace/domain";

interface BrokersFieldProps {
  value: number;
  description: string;
  /** 2 where the cluster has several already. */
  min?: number;
  error?: string | undefined;
  onChange(brokers: number): void;
}

/** How many brokers a cluster has. */
export function BrokersField({ value, description, min = 1, error, onChange }: BrokersFieldProps) {
  return (
    <NumberInput
      label="Brokers"
      description={description}
      min={min}
      max={BROKERS_PER_CLUSTER_MAX}
      allowDecimal={false}
      clampBehavior="strict"
      maw={420}
      value={value}
      error={error}
      onChange={(next) => typeof next === "number" && onChange(next)}
    />
  );
}
