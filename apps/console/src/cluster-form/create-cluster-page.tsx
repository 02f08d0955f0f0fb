"use client";

import {
  Alert,
  Anchor,
  Box,
  Button,
  Card,
  Code,
  Grid,
  Group,
  Stack,
  Switch,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { providerOf, regionFacts } from "@millrace/domain";
import { IconInfoCircle } from "@tabler/icons-react";
import Link from "next/link";
import { type FormEvent, type ReactNode, useEffect } from "react";
import { ChangePreview } from "../plan/change-preview.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { BrokersField } from "./brokers-field.tsx";
import { inRegion, NAME_RULE, onAws, withSize } from "./cluster-draft.ts";
import { EnvironmentField } from "./environment-field.tsx";
import { estimateOf, monthlyIn } from "./estimate.ts";
import { EstimateCard } from "./estimate-card.tsx";
import { NetworkFields } from "./network-fields.tsx";
import { previewOnly, RegionField, useAwsRegion, useRegionAvailable } from "./region-field.tsx";
import { SizeCards } from "./size-cards.tsx";
import { type ClusterForm, useClusterForm } from "./use-cluster-form.ts";
import { WalFields } from "./wal-fields.tsx";
import { ZoneSpread } from "./zone-spread.tsx";

/** Describes a cluster, previews its resources and its cost, and creates it. */
export function CreateClusterPage() {
  const form = useClusterForm();
  return (
    <Stack gap="lg">
      <div>
        <Anchor component={Link} href="/clusters" fz="sm">
          Clusters
        </Anchor>
        <Title order={1} fz="h2">
          {form.preview ? `Review plan for ${form.draft.name}` : "Create cluster"}
        </Title>
      </div>
      {form.preview ? <Review form={form} /> : <Describe form={form} />}
    </Stack>
  );
}

function Describe({ form }: { form: ClusterForm }) {
  const estimate = estimateOf(form.draft);
  // On AWS the cluster costs money: its plan is reviewed first.
  const reviewFirst = onAws(form.draft);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    reviewFirst ? form.review() : form.create();
  };
  return (
    <form onSubmit={submit} noValidate>
      <Grid gap="lg">
        <Grid.Col span={{ base: 12, md: reviewFirst ? 8 : 9 }}>
          <Stack gap="lg">
            <Fields form={form} />
            {form.refusal != null && (
              <ProblemAlert error={form.refusal} title="This cluster cannot be created" />
            )}
            <Group>
              {!reviewFirst && (
                <Button type="submit" loading={form.busy}>
                  Create cluster
                </Button>
              )}
              <Button
                type={reviewFirst ? "submit" : "button"}
                variant={reviewFirst ? "filled" : "default"}
                loading={form.busy}
                onClick={reviewFirst ? undefined : form.review}
              >
                Review plan
              </Button>
              <Button component={Link} href="/clusters" variant="default">
                Cancel
              </Button>
            </Group>
          </Stack>
        </Grid.Col>
        {reviewFirst && (
          <Grid.Col span={{ base: 12, md: 4 }}>
            <Box pos="sticky" top={76}>
              <EstimateCard estimate={estimate} />
            </Box>
          </Grid.Col>
        )}
      </Grid>
    </form>
  );
}

const BROKERS_TEXT =
  "Several take over from each other, and you can add and remove some later. One stays alone: choose now";

function Fields({ form }: { form: ClusterForm }) {
  const { draft, errors, set } = form;
  return (
    <>
      <Card>
        <Stack gap="md">
          <TextInput
            label="Name"
            description={NAME_RULE}
            placeholder="e.g. orders"
            data-autofocus
            autoComplete="off"
            value={draft.name}
            error={errors["/name"]}
            onBlur={() => draft.name !== "" && form.leave("/name")}
            onChange={(event) => set({ ...draft, name: event.currentTarget.value })}
          />
          <Group grow align="flex-start">
            <RegionField
              value={draft.region}
              error={errors["/region"]}
              onChange={(region) => set(inRegion(draft, region))}
            />
            <EnvironmentField
              value={draft.environmentId}
              error={errors["/environment_id"]}
              onChange={(environmentId) => set({ ...draft, environmentId })}
            />
          </Group>
        </Stack>
      </Card>
      <Card>
        <SizeCards
          value={draft.size}
          provider={providerOf(draft.region)}
          monthly={(size) => monthlyIn(draft, size)}
          onChange={(size) => set(withSize(draft, size))}
        />
      </Card>
      <Card>
        <Stack gap="sm">
          <BrokersField
            value={draft.brokers}
            description={BROKERS_TEXT}
            error={errors["/brokers"]}
            onChange={(brokers) => set({ ...draft, brokers })}
          />
          {onAws(draft) && draft.brokers > 1 && (
            <ZoneSpread brokers={draft.brokers} zones={regionFacts(draft.region).zones} />
          )}
        </Stack>
      </Card>
      {onAws(draft) && <AwsFields form={form} />}
      <Card>
        <Stack gap="md">
          <Switch
            label="Deletion protection"
            description="Blocks deletion from the console and API"
            checked={draft.deletionProtection}
            onChange={(event) => set({ ...draft, deletionProtection: event.currentTarget.checked })}
          />
          {!onAws(draft) && (
            <Switch
              label="Plaintext listener"
              description="Clients on this machine can connect without TLS or a password"
              checked={draft.plaintextListener}
              onChange={(event) =>
                set({ ...draft, plaintextListener: event.currentTarget.checked })
              }
            />
          )}
          <Switch
            label="Wait for approval"
            description="Plans again, and applies only after somebody approves"
            checked={draft.requireApproval}
            onChange={(event) => set({ ...draft, requireApproval: event.currentTarget.checked })}
          />
        </Stack>
      </Card>
    </>
  );
}

function AwsFields({ form: { draft, errors, set, leave } }: { form: ClusterForm }) {
  return (
    <>
      <Section title="Write-ahead log">
        <WalFields
          wal={draft.wal}
          size={draft.size}
          errors={errors}
          onChange={(wal) => set({ ...draft, wal })}
        />
      </Section>
      <Section title="Network">
        <NetworkFields
          network={draft.network}
          errors={errors}
          onChange={(network) => set({ ...draft, network })}
        />
      </Section>
      <Section title="Encryption">
        <TextInput
          label="KMS key"
          description="ARN of your own key for the bucket, volumes, logs and secrets. Empty: the cluster gets its own key"
          placeholder="arn:aws:kms:…"
          autoComplete="off"
          value={draft.kmsKeyArn}
          error={errors["/storage/kms_key_arn"]}
          onBlur={() => leave("/storage/kms_key_arn")}
          onChange={(event) => set({ ...draft, kmsKeyArn: event.currentTarget.value })}
        />
      </Section>
    </>
  );
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Card component="section" aria-label={title}>
      <Title order={2} fz="h5" mb="sm">
        {title}
      </Title>
      {children}
    </Card>
  );
}

/** Planning needs no account, creating does: what is missing is named before anybody tries. */
function PreviewOnly() {
  const awsRegion = useAwsRegion();
  return (
    <Alert color="gray" icon={<IconInfoCircle size={18} />} title={previewOnly(awsRegion)}>
      {awsRegion === undefined ? (
        <>
          To create clusters on AWS, set <Code>MILLRACE_AWS_ROLE_ARN</Code> for the API and the
          worker and <Code>MILLRACE_AWS_REGION</Code> for the API, and restart them.
        </>
      ) : (
        `To create this cluster, go back and choose ${awsRegion}.`
      )}
    </Alert>
  );
}

export function Review({ form }: { form: ClusterForm }) {
  const { preview, draft } = form;
  const available = useRegionAvailable(draft.region);
  // The button that led here stood at the end of a long page.
  useEffect(() => {
    window.scrollTo({ top: 0 });
  }, []);
  if (!preview) return null;
  const broken = preview.policy.some(({ severity }) => severity === "error");
  return (
    <Stack gap="lg">
      <ChangePreview preview={preview} />
      {form.refusal != null && (
        <ProblemAlert error={form.refusal} title="The cluster was not created" />
      )}
      {!available && <PreviewOnly />}
      <Group>
        {available && (
          <Button loading={form.busy} disabled={broken} onClick={form.create} data-autofocus>
            Create cluster
          </Button>
        )}
        <Button variant="default" onClick={form.reconsider}>
          Back
        </Button>
        {available && (
          <Text fz="sm" className="quiet">
            {draft.requireApproval
              ? "Planned again when you create it, and applied only after somebody approves."
              : "Planned again when you create it; ports and id are assigned then."}
          </Text>
        )}
      </Group>
    </Stack>
  );
}
