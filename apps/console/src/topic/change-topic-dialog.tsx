"use client";

import { Modal, Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTRPC } from "../api/client.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { TopicForm } from "./topic-form.tsx";

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
