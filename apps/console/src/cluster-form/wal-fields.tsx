"use client";

import { Group, NumberInput, Radio, SimpleGrid, Stack, Text } from "@mantine/core";
import {
  awsSizing,
  type ClusterSize,
  WAL_VOLUME_TYPES,
  type WalVolumeType,
  walVolumeLimits,
} from "@millrace/domain";
import type { FieldErrors } from "./field-errors.ts";
import { type WalDraft, withType } from "./wal-draft.ts";

interface WalFieldsProps {
  wal: WalDraft;
  size: ClusterSize;
  errors: FieldErrors;
  onChange: (wal: WalDraft) => void;
  /** Current size in GiB: a volume can only grow. */
  sizeGibMin?: number;
}

/** The volume of the write-ahead log. */
export function WalFields({ wal, size, errors, onChange, sizeGibMin }: WalFieldsProps) {
  const limits = walVolumeLimits(wal.type);
  const { instance } = awsSizing(size);
  const number = (field: "sizeGib" | "iops" | "throughputMibps") => ({
    value: wal[field],
    onChange: (value: number | string) => onChange({ ...wal, [field]: value }),
    allowDecimal: false,
    allowNegative: false,
    thousandSeparator: ",",
  });
  return (
    <Stack gap="md">
      <Radio.Group
        label="Volume type"
        value={wal.type}
        onChange={(type) => onChange(withType(wal, type as WalVolumeType))}
      >
        <Group gap="lg" mt={6}>
          {WAL_VOLUME_TYPES.map((type) => (
            <Radio key={type} value={type} label={walVolumeLimits(type).title} />
          ))}
        </Group>
      </Radio.Group>
      <SimpleGrid cols={{ base: 1, sm: 3 }}>
        <NumberInput
          label="Size, GiB"
          description={range(sizeGibMin ?? limits.sizeGib.min, limits.sizeGib.max)}
          error={errors["/wal/size_gib"]}
          {...number("sizeGib")}
        />
        <NumberInput
          label="IOPS"
          description={`${range(limits.iops.min, limits.iops.max)}, at most ${limits.iopsPerGib.toLocaleString("en")} per GiB`}
          error={errors["/wal/iops"]}
          {...number("iops")}
        />
        {limits.throughputMibps && (
          <NumberInput
            label="Throughput, MiB/s"
            description={range(limits.throughputMibps.min, limits.throughputMibps.max)}
            error={errors["/wal/throughput_mibps"]}
            {...number("throughputMibps")}
          />
        )}
      </SimpleGrid>
      <Text fz="xs" className="quiet">
        Every produce request waits for this volume. {instance.type} sustains{" "}
        {mibps(instance.ebsBaselineBytesPerSecond)} MiB/s and{" "}
        {instance.ebsBaselineIops.toLocaleString("en")} IOPS to its volumes. You can change the
        volume later without downtime, but not shrink it.
      </Text>
    </Stack>
  );
}

function range(min: number, max: number): string {
  return `${min.toLocaleString("en")} to ${max.toLocaleString("en")}`;
}

function mibps(bytesPerSecond: number): string {
  return Math.round(bytesPerSecond / 1024 ** 2).toLocaleString("en");
}
