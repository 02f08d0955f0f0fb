"use client";

import { Button, Card, Group, Skeleton, Stack, Switch, Text } from "@mantine/core";
import type { AccessReview } from "@millrace/contract";
import { IconCheck, IconDownload } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { ago, moment } from "../format/time.ts";
import { useDenied } from "../session/use-allowed.ts";
import { Empty } from "../shell/empty.tsx";
import { PageHeader } from "../shell/page-header.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { AccessTable } from "./access-table.tsx";

/** Every way into the organization, and what of it somebody should look at. */
export function AccessReviewPage() {
  const trpc = useTRPC();
  const denied = useDenied("access:review");
  const { data, error, isPending } = useQuery({
    ...trpc.accessReview.get.queryOptions({}),
    enabled: !denied,
  });
  const record = useRecordReview();
  if (denied) {
    return (
      <Empty
        title="No permission"
        text="Owners, admins and custom roles with the permission access:review can review access."
      />
    );
  }
  return (
    <Stack gap="lg">
      <PageHeader
        title="Access review"
        text="Everyone and everything with access to this organization"
      >
        <Group>
          <Button
            component="a"
            href="/v1/access-review/export"
            download="access-review.csv"
            variant="default"
            leftSection={<IconDownload size={16} />}
          >
            Export as CSV
          </Button>
          <Button
            leftSection={<IconCheck size={16} />}
            loading={record.isPending}
            disabled={!data?.complete}
            onClick={() => data && record.mutate({ digest: data.digest })}
          >
            Mark as reviewed
          </Button>
        </Group>
      </PageHeader>
      {record.error && <ProblemAlert error={record.error} title="Cannot record the review" />}
      {data && <LastReview review={data.last_review} />}
      {error && <ProblemAlert error={error} title="Cannot load the access review" />}
      {isPending && <Skeleton h={240} radius="md" />}
      {data && <AccessList review={data} />}
    </Stack>
  );
}

function LastReview({ review }: { review: AccessReview["last_review"] }) {
  if (!review) return <Text fz="sm">Not reviewed yet</Text>;
  return (
    <Text fz="sm" title={moment(review.reviewed_at)}>
      Last reviewed {ago(review.reviewed_at)} by {review.reviewed_by.name}
    </Text>
  );
}

/** Records exactly the review shown: if the access has changed since, the API rejects it. */
function useRecordReview() {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  return useMutation(
    trpc.accessReview.create.mutationOptions({
      onSettled: () => void queryClient.invalidateQueries(trpc.accessReview.pathFilter()),
    }),
  );
}

function AccessList({ review: { items, complete } }: { review: AccessReview }) {
  const [onlyFindings, setOnlyFindings] = useState(false);
  const found = items.filter(({ findings }) => findings.length > 0);
  return (
    <>
      <Switch
        label={`Only those with findings (${found.length} of ${items.length})`}
        checked={onlyFindings}
        onChange={(event) => setOnlyFindings(event.currentTarget.checked)}
      />
      {!complete && (
        <Text fz="sm">
          This list is incomplete: of the API keys, it has only those never used and those unused
          for longest. Revoke keys that are no longer needed, then review again. An incomplete
          review cannot be recorded.
        </Text>
      )}
      <Card padding={0}>
        <AccessTable items={onlyFindings ? found : items} />
      </Card>
    </>
  );
}
