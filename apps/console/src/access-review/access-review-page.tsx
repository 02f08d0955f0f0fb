"use client";

import { Alert, Button, Card, Group, Skeleton, Stack, Switch, Text } from "@mantine/core";
import type { AccessReview } from "@millrace/contract";
import { IconAlertTriangle, IconCheck, IconDownload } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { problemOf, useTRPC } from "../api/client.tsx";
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
  const record = useRecord();
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
      {data && <LastReview review={data.last_review} />}
      {record.error && <NotRecorded error={record.error} />}
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

/** Records exactly the review shown: if the access has changed since, the API rejects it and the page shows the new one. */
function useRecord() {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  return useMutation(
    trpc.accessReview.create.mutationOptions({
      onSettled: () => void queryClient.invalidateQueries(trpc.accessReview.pathFilter()),
    }),
  );
}

/** Why the review is not recorded; in the page's words where the API's are about digests. */
function NotRecorded({ error }: { error: unknown }) {
  const title = "Cannot record the review";
  if (problemOf(error)?.code !== "access_changed") {
    return <ProblemAlert error={error} title={title} />;
  }
  return (
    <Alert color="red" title={title} icon={<IconAlertTriangle size={18} />} role="alert">
      The access has changed since this page loaded it. The list now shows the current access: check
      it again, then mark it as reviewed.
    </Alert>
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
