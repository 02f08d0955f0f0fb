"use client";

import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";

/** More environments than this are not offered one by one. */
const OFFERED_MAX = 200;

/** The environment that a cluster belongs to; the first one where none was chosen. */
export function EnvironmentField(props: {
  value: string;
  error: string | undefined;
  onChange: (environmentId: string) => void;
}) {
  const { value, error, onChange } = props;
  const trpc = useTRPC();
  const { data } = useQuery(trpc.environment.list.queryOptions({ page_size: OFFERED_MAX }));
  const items = data?.items ?? [];
  return (
    <Select
      label="Environment"
      description="Cluster names are unique per environment"
      data={items.map(({ id, name }) => ({ value: id, label: name }))}
      value={value || (items[0]?.id ?? null)}
      allowDeselect={false}
      disabled={items.length === 0}
      error={error}
      onChange={(id) => id && onChange(id)}
    />
  );
}
