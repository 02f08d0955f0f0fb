"use client";

import { Alert, Modal, NumberInput, Radio, SimpleGrid, Stack, Text } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { Benchmark, Cluster } from "@millrace/contract";
import { BENCHMARK_BOUNDS, BENCHMARK_WORKLOADS, benchmarkRateMax } from "@millrace/domain";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { bytes } from "../format/quantity.ts";
import { useRefresh } from "../operation/use-refresh.ts";
import { FormActions } from "../shell/form-actions.tsx";
import {
  type BenchmarkDraft,
  bytesWritten,
  draftErrors,
  draftOf,
  newDraft,
  requestOf,
} from "./benchmark-draft.ts";
import { WORKLOADS } from "./benchmark-words.ts";

interface FormProps {
  cluster: Cluster;
  /** The newest benchmark, whose load is offered again. */
  last: Benchmark | undefined;
  onClose: () => void;
}

/** Asks for the load, with its bounds, and says what it will do before it starts. */
export function RunBenchmarkDialog({ opened, ...form }: FormProps & { opened: boolean }) {
  return (
    <Modal opened={opened} onClose={form.onClose} title="Run a benchmark" size="lg">
      <BenchmarkForm {...form} />
    </Modal>
  );
}

function BenchmarkForm({ cluster, last, onClose }: FormProps) {
  const walBytes = Number(cluster.status.wal_capacity_bytes);
  const form = useForm<BenchmarkDraft>({
    initialValues: last ? draftOf(last, walBytes) : newDraft(walBytes),
    validate: (draft) => draftErrors(draft, walBytes),
    validateInputOnBlur: true,
  });
  const run = useRun();
  const rate = benchmarkRateMax(walBytes) / 1024 ** 2;
  const number = { allowDecimal: false, allowNegative: false, thousandSeparator: "," } as const;
  return (
    <form
      noValidate
      onSubmit={form.onSubmit((draft) =>
        run.mutate(requestOf(cluster.metadata.id, draft), { onSuccess: onClose }),
      )}
    >
      <Stack>
        <WorkloadField {...form.getInputProps("workload")} />
        <SimpleGrid cols={{ base: 1, xs: 2 }}>
          <NumberInput
            label="Rate (MiB/s)"
            description={`At most ${rate} for this cluster`}
            decimalScale={2}
            allowNegative={false}
            {...form.getInputProps("mebibytesPerSecond")}
          />
          <NumberInput
            label="Duration (seconds)"
            description={boundsText(BENCHMARK_BOUNDS.durationSeconds)}
            {...number}
            {...form.getInputProps("seconds")}
          />
          <NumberInput
            label="Record size (bytes)"
            description={boundsText(BENCHMARK_BOUNDS.recordSizeBytes)}
            {...number}
            {...form.getInputProps("recordBytes")}
          />
          <NumberInput
            label="Partitions"
            description={boundsText(BENCHMARK_BOUNDS.partitions)}
            {...number}
            {...form.getInputProps("partitions")}
          />
        </SimpleGrid>
        <Consequences draft={form.values} />
        <FormActions submit="Run" busy={run.isPending} error={run.error} onCancel={onClose} />
      </Stack>
    </form>
  );
}

function useRun() {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  const refresh = useRefresh();
  return useMutation(
    trpc.benchmark.run.mutationOptions({
      onSuccess: () => {
        refresh();
        void queryClient.invalidateQueries(trpc.benchmark.pathFilter());
      },
    }),
  );
}

function WorkloadField(props: { value?: string; onChange?: (value: string) => void }) {
  return (
    <Radio.Group label="Workload" {...props}>
      <Stack gap="xs" mt={6}>
        {BENCHMARK_WORKLOADS.map((workload) => (
          <Radio
            key={workload}
            value={workload}
            label={WORKLOADS[workload].title}
            description={WORKLOADS[workload].text}
          />
        ))}
      </Stack>
    </Radio.Group>
  );
}

/** What the load will do, before somebody starts it. */
export function Consequences({ draft }: { draft: BenchmarkDraft }) {
  const total = bytesWritten(draft);
  return (
    <Alert color="gray" title="What happens" data-figure="consequences">
      <Text fz="sm">
        {total === undefined
          ? "Enter a rate and a duration."
          : `Writes up to ${bytes(total)} in ${draft.seconds} s to a temporary topic, which is deleted afterwards, even after a failure.`}
      </Text>
      <Text fz="sm" mt={4}>
        The load shares the broker with your clients. It does not start while the write-ahead log is
        more than half full or uploads are behind, and it stops if the log fills up.
      </Text>
    </Alert>
  );
}

function boundsText({ min, max }: { min: number; max: number }): string {
  return `${min.toLocaleString("en")} to ${max.toLocaleString("en")}`;
}
