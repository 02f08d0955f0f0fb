"use client";

import {
  Button,
  Card,
  Group,
  Radio,
  Stack,
  Switch,
  TagsInput,
  TextInput,
  Title,
} from "@mantine/core";
import type { Cluster } from "@millrace/contract";
import {
  ALLOWED_CIDRS_MAX,
  ALLOWED_PRINCIPALS_MAX,
  type ClusterSize,
  type NetworkAccess,
} from "@millrace/domain";
import { estimateOfCluster } from "../cluster/cluster-estimate.ts";
import { BrokersField } from "../cluster-form/brokers-field.tsx";
import { NAME_RULE } from "../cluster-form/cluster-draft.ts";
import { SizeCards } from "../cluster-form/size-cards.tsx";
import { WalFields } from "../cluster-form/wal-fields.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { ChangeReview } from "./change-review.tsx";
import { type ClusterChange, useClusterChange } from "./use-cluster-change.ts";

/** Labels of one cluster: the API takes no more. */
const LABELS_MAX = 32;

/** Changes to an existing cluster, reviewed before they are applied. */
export function ChangeCard({ cluster, editable }: { cluster: Cluster; editable: boolean }) {
  const change = useClusterChange(cluster);
  const { draft, errors, set } = change;
  return (
    <Card component="section" aria-label="Change">
      <fieldset disabled={!editable} style={{ border: 0, padding: 0, margin: 0, minWidth: 0 }}>
        <Stack gap="lg">
          <Group grow align="flex-start">
            <TextInput
              label="Name"
              description={NAME_RULE}
              autoComplete="off"
              value={draft.name}
              error={errors["/name"]}
              onChange={(event) => set({ name: event.currentTarget.value })}
            />
            <TagsInput
              label="Labels"
              description="name=value; press Enter after each. On AWS they also become tags"
              maxTags={LABELS_MAX}
              value={draft.labels}
              error={errors["/labels"]}
              onChange={(labels) => set({ labels })}
            />
          </Group>
          <SizeCards
            value={draft.size}
            provider={cluster.status.provider}
            monthly={(size) => monthlyIn(cluster, size)}
            onChange={(size) => set({ size })}
            walBytes={Number(cluster.status.wal_capacity_bytes)}
          />
          {draft.brokers !== undefined && (
            <BrokersField
              value={draft.brokers}
              description="New ones are started; the last ones give their partitions to the others and stop"
              min={2}
              error={errors["/brokers"]}
              onChange={(brokers) => set({ brokers })}
            />
          )}
          {draft.plaintextListener !== undefined && (
            <Switch
              label="Plaintext listener"
              description="Clients on this machine can connect without TLS or a password"
              checked={draft.plaintextListener}
              onChange={(event) => set({ plaintextListener: event.currentTarget.checked })}
            />
          )}
          <AwsFields cluster={cluster} change={change} />
          {change.refusal != null && !change.preview && (
            <ProblemAlert error={change.refusal} title="This change is not possible" />
          )}
          <Group>
            <Button disabled={!change.ready} loading={change.busy} onClick={change.review}>
              Review change
            </Button>
            {change.changed && (
              <Button variant="default" onClick={change.discard}>
                Discard
              </Button>
            )}
          </Group>
        </Stack>
      </fieldset>
      <ChangeReview change={change} />
    </Card>
  );
}

/** What the cluster would cost in another size; nothing where it costs nothing. */
function monthlyIn(cluster: Cluster, size: ClusterSize): number | undefined {
  const { total } = estimateOfCluster({ ...cluster, spec: { ...cluster.spec, size } });
  return total > 0 ? total : undefined;
}

function AwsFields({ cluster, change }: { cluster: Cluster; change: ClusterChange }) {
  const { draft, errors, set } = change;
  return (
    <>
      {draft.wal && (
        <div>
          <Title order={3} fz="h6" mb="xs">
            Write-ahead log
          </Title>
          <WalFields
            wal={draft.wal}
            size={draft.size}
            errors={errors}
            onChange={(wal) => set({ wal })}
            {...(cluster.spec.wal && { sizeGibMin: cluster.spec.wal.size_gib })}
          />
        </div>
      )}
      {draft.reach && <ReachFields change={change} reach={draft.reach} />}
    </>
  );
}

function ReachFields(props: {
  change: ClusterChange;
  reach: NonNullable<ClusterChange["draft"]["reach"]>;
}) {
  const { reach } = props;
  const { errors, set } = props.change;
  return (
    <div>
      <Title order={3} fz="h6" mb="xs">
        Access
      </Title>
      <Stack gap="md">
        <Radio.Group
          aria-label="Access"
          value={reach.access}
          onChange={(access) => set({ reach: { ...reach, access: access as NetworkAccess } })}
        >
          <Group gap="lg">
            <Radio value="private" label="VPC and connected networks" />
            <Radio value="endpoint_service" label="Also other accounts (PrivateLink)" />
          </Group>
        </Radio.Group>
        {reach.access === "endpoint_service" && (
          <TagsInput
            label="Allowed principals"
            maxTags={ALLOWED_PRINCIPALS_MAX}
            value={reach.allowedPrincipals}
            error={errors["/network/allowed_principals"]}
            onChange={(allowedPrincipals) => set({ reach: { ...reach, allowedPrincipals } })}
          />
        )}
        <TagsInput
          label="Allowed address ranges"
          maxTags={ALLOWED_CIDRS_MAX}
          value={reach.allowedCidrs}
          error={errors["/network/allowed_cidrs"]}
          onChange={(allowedCidrs) => set({ reach: { ...reach, allowedCidrs } })}
        />
      </Stack>
    </div>
  );
}
