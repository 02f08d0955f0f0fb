"use client";

import { Alert, Card, Skeleton, Stack, Text, Title } from "@mantine/core";
import type { Tuning } from "@millrace/contract";
import { allows } from "@millrace/domain";
import { IconClock, IconEye } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Fragment } from "react";
import { useTRPC } from "../api/client.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { ChangeBar } from "./change-bar.tsx";
import { ConfirmChange } from "./confirm-change.tsx";
import { KnobRow } from "./knob-row.tsx";
import { KNOB_GROUPS, type KnobGroup } from "./knobs.ts";
import { type TuningEdit, useTuningEdit } from "./tuning-edit.ts";
import { TuningHistory } from "./tuning-history.tsx";

/** Often enough to see the broker take what it missed. */
const TUNING_POLL_MS = 3_000;

/** A cluster's knobs with their bounds, to be changed while it runs, and who changed them before. */
export function TuningPage({ clusterId }: { clusterId: string }) {
  const trpc = useTRPC();
  const { data: me } = useQuery(trpc.account.me.queryOptions({}));
  const { data, error } = useQuery(
    trpc.tuning.get.queryOptions({ cluster_id: clusterId }, { refetchInterval: TUNING_POLL_MS }),
  );
  const edit = useTuningEdit(clusterId, data);
  const readOnly = me !== undefined && !allows(me.role, "tuning:write");
  return (
    <Stack gap="md">
      {error && <ProblemAlert error={error} title="The tuning cannot be read" />}
      {data && <StateNote tuning={data} />}
      {readOnly && (
        <Alert color="gray" icon={<IconEye size={18} />} title="You can look, but not change">
          Ask an owner, an admin or a member of the organization for a change.
        </Alert>
      )}
      {!data && !error && <Skeleton h={480} radius="md" />}
      {data &&
        KNOB_GROUPS.map((group) => (
          <GroupCard
            key={group.title}
            group={group}
            tuning={data}
            edit={me && !readOnly ? edit : undefined}
          />
        ))}
      <ChangeBar edit={edit} />
      <ConfirmChange edit={edit} tuning={data} />
      <TuningHistory clusterId={clusterId} />
    </Stack>
  );
}

/** What stands between what is asked for and what runs. */
export function StateNote({ tuning }: { tuning: Tuning }) {
  if (tuning.applied) return null;
  const asked = tuning.metadata.version > 0;
  return (
    <Alert
      color="orange"
      icon={<IconClock size={18} />}
      // Mantine's orange misses AA contrast on its own light ground.
      styles={{ title: { color: "var(--mantine-color-text)" } }}
      title={asked ? "Saved, not applied yet" : "What runs is not known now"}
      role="status"
    >
      {tuning.problem
        ? `The broker did not take it: ${tuning.problem}`
        : asked
          ? "The broker does not answer now. It is given what was asked for as soon as it is back, and starts with it."
          : "The broker does not answer now. What stands here is what its size starts with."}
    </Alert>
  );
}

function GroupCard(props: { group: KnobGroup; tuning: Tuning; edit: TuningEdit | undefined }) {
  const { group, tuning, edit } = props;
  return (
    <Card component="section" aria-label={group.title} padding={0}>
      <Card.Section withBorder inheritPadding px="lg" py="md" m={0}>
        <Title order={2} fz="h4">
          {group.title}
        </Title>
        <Text fz="sm" className="quiet">
          {group.text}
        </Text>
      </Card.Section>
      {group.knobs.map((knob, at) => (
        <Fragment key={knob}>
          <KnobRow knob={knob} setting={tuning[knob]} edit={edit} first={at === 0} />
        </Fragment>
      ))}
    </Card>
  );
}
