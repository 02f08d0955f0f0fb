"use client";

import { Button, Group, NumberInput, Stack, Switch } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import type { Topic } from "@millrace/contract";
import { useMutation, useQueryClient } from "@tanstack/react-query";
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

interface TopicFormProps {
  clusterId: string;
  topic: Topic;
  /** Closes the dialog that the form is in, if it is in one. */
  onClose?: () => void;
}

/** Edits a topic's partitions and settings, in a dialog and on the topic's page. */
export function TopicForm({ clusterId, topic, onClose }: TopicFormProps) {
  const [draft, setDraft] = useState<TopicDraft>(() => topicDraftOf(topic));
  const [all, shown] = useDisclosure(false);
  const leave = (now: Topic) => {
    setDraft(topicDraftOf(now));
    onClose?.();
  };
  const update = useUpdate(leave);
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
        <Button variant="default" disabled={!changed && !onClose} onClick={() => leave(topic)}>
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

function useUpdate(onSaved: (topic: Topic) => void) {
  const trpc = useTRPC();
  const queryClient = useQueryClient();
  return useMutation(
    trpc.topic.update.mutationOptions({
      onSuccess: (topic) => {
        void queryClient.invalidateQueries(trpc.topic.pathFilter());
        notifications.show({ message: `Topic ${topic.name} updated.` });
        onSaved(topic);
      },
    }),
  );
}
