"use client";

import { Button, Group, Modal, NumberInput, Skeleton, Stack, Switch } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { Topic } from "@millrace/contract";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import {
  PARTITIONS_RULE,
  partitionsError,
  settingsOf,
  type TopicDraft,
  topicDraftOf,
  topicPatchOf,
  withOverride,
} from "./topic-draft.ts";
import { TopicSettings } from "./topic-settings.tsx";

interface DialogProps {
  clusterId: string;
  /** The topic to change; the dialog is closed without one. */
  name: string | undefined;
  onClose: () => void;
}

/** Adds partitions to a topic and changes its settings. */
export function ChangeTopicDialog({ clusterId, name, onClose }: DialogProps) {
  const trpc = useTRPC();
  const { data: topic, error } = useQuery(
    trpc.topic.get.queryOptions(
      { cluster_id: clusterId, topic_name: name ?? "" },
      { enabled: name !== undefined },
    ),
  );
  return (
    <Modal
      opened={name !== undefined}
      onClose={onClose}
      size="lg"
      title={`Edit topic ${name ?? ""}`}
    >
      {error && <ProblemAlert error={error} title="Cannot load the topic" />}
      {!topic && !error && <Skeleton h={240} radius="md" />}
      {topic && <TopicForm key={name} clusterId={clusterId} topic={topic} onClose={onClose} />}
    </Modal>
  );
}

function TopicForm(props: { clusterId: string; topic: Topic; onClose: () => void }) {
  const { clusterId, topic, onClose } = props;
  const [draft, setDraft] = useState<TopicDraft>(() => topicDraftOf(topic));
  const [all, shown] = useDisclosure(false);
  const update = useUpdate(onClose);
  const wrong = partitionsError(topic, draft);
  const patch = topicPatchOf(topic, draft);
  const changed = Object.keys(patch).length > 0;
  return (
    <Stack>
      <NumberInput
        label="Partitions"
        description={PARTITIONS_RULE}
        allowDecimal={false}
        value={draft.partitions}
        error={wrong}
        onChange={(partitions) => setDraft({ ...draft, partitions })}
      />
      <TopicSettings
        settings={settingsOf(topic, draft, all)}
        onOverride={(name, override) => setDraft(withOverride(draft, name, override))}
      />
      <Switch label="Show all settings" checked={all} onChange={shown.toggle} />
      {update.error && <ProblemAlert error={update.error} title="The topic was not changed" />}
      <Group justify="flex-end">
        <Button variant="default" onClick={onClose}>
          Cancel
        </Button>
        <Button
          disabled={!changed || wrong !== undefined}
          loading={update.isPending}
          onClick={() => update.mutate({ cluster_id: clusterId, topic_name: topic.name, ...patch })}
        >
          Save
        </Button>
      </Group>
    </Stack>
  );
}

function useUpdate(onSaved: () => void) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  return useMutation(
    trpc.topic.update.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.topic.pathFilter());
        onSaved();
      },
    }),
  );
}
