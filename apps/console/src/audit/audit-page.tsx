"use client";

import { Anchor, Button, Card, Group, Select, Skeleton, Stack, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import type { AuditResult } from "@millrace/domain";
import { IconDownload } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { useDenied } from "../session/use-allowed.ts";
import { Empty } from "../shell/empty.tsx";
import { NoPermission } from "../shell/no-permission.tsx";
import { PageHeader } from "../shell/page-header.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { ShowMore } from "../shell/show-more.tsx";
import {
  ANY_EVENT,
  type AuditFilter,
  auditQueryOf,
  exportHref,
  KINDS,
  PERIODS,
  type Period,
} from "./audit-filter.ts";
import { AuditTable, RESULTS } from "./audit-table.tsx";

const PAGE_SIZE = 50;
const TYPING_MS = 300;

/** Who changed what in the organization. */
export function AuditPage() {
  const denied = useDenied("audit:read");
  const [filter, setFilter] = useState<AuditFilter>(ANY_EVENT);
  if (denied) {
    return <NoPermission to="read the audit log" />;
  }
  return (
    <Stack gap="lg">
      <PageHeader
        title="Audit log"
        level={1}
        text="Changes in this organization and requests that were denied, newest first"
      >
        <Button
          component="a"
          href={exportHref(filter, Date.now())}
          download="audit-events.ndjson"
          variant="default"
          leftSection={<IconDownload size={16} />}
        >
          Export as NDJSON
        </Button>
      </PageHeader>
      <Filters filter={filter} onChange={setFilter} />
      <Events filter={filter} onReset={() => setFilter(ANY_EVENT)} />
    </Stack>
  );
}

interface FiltersProps {
  filter: AuditFilter;
  onChange: (filter: AuditFilter) => void;
}

function Filters({ filter, onChange }: FiltersProps) {
  const set = (changes: Partial<AuditFilter>) => onChange({ ...filter, ...changes });
  return (
    <Group align="flex-end" role="search" aria-label="Filter events">
      <Select
        label="Changes of"
        data={[{ value: "", label: "Everything" }, ...KINDS]}
        value={filter.kind}
        allowDeselect={false}
        onChange={(kind) => set({ kind: kind ?? "" })}
      />
      <Select
        label="Result"
        data={[
          { value: "", label: "All" },
          ...Object.entries(RESULTS).map(([value, [, , label]]) => ({ value, label })),
        ]}
        value={filter.result}
        allowDeselect={false}
        onChange={(result) => set({ result: (result ?? "") as AuditResult | "" })}
      />
      <Select
        label="Period"
        data={Object.entries(PERIODS).map(([value, label]) => ({ value, label }))}
        value={filter.period}
        allowDeselect={false}
        onChange={(period) => set({ period: (period ?? "all") as Period })}
      />
      <TextInput
        label="Target ID"
        placeholder="clu_…"
        value={filter.targetId}
        onChange={(event) => set({ targetId: event.currentTarget.value })}
      />
    </Group>
  );
}

function Events({ filter, onReset }: { filter: AuditFilter; onReset: () => void }) {
  const trpc = useTRPC();
  const [asked] = useDebouncedValue(filter, TYPING_MS);
  const { data, error, isPending, fetchNextPage, hasNextPage, isFetchingNextPage } =
    useInfiniteQuery(
      trpc.auditEvent.list.infiniteQueryOptions(
        { ...auditQueryOf(asked, Date.now()), page_size: PAGE_SIZE },
        { getNextPageParam: (page) => page.next_page_token },
      ),
    );
  const events = data?.pages.flatMap((page) => page.items) ?? [];
  if (error) return <ProblemAlert error={error} title="Cannot load the audit log" />;
  if (isPending) return <Skeleton h={240} radius="md" />;
  if (events.length === 0) {
    return (
      <Empty title="No events" text="Nothing in the audit log matches this filter.">
        <Anchor component="button" type="button" onClick={onReset}>
          Show all events
        </Anchor>
      </Empty>
    );
  }
  return (
    <Card padding={0}>
      <AuditTable events={events} />
      {hasNextPage && <ShowMore loading={isFetchingNextPage} onClick={() => fetchNextPage()} />}
    </Card>
  );
}
