"use client";

import {
  Alert,
  Anchor,
  Button,
  Card,
  Group,
  Radio,
  SimpleGrid,
  Stack,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { useForm } from "@mantine/form";
import {
  CLUSTER_NAME_PATTERN,
  CLUSTER_SIZE_NAMES,
  type ClusterSize,
  sizingOf,
} from "@millrace/domain";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import Link from "next/link";
import { useRouter } from "next/navigation";
import { messageOf, statusOf, useTRPC } from "../api/client.tsx";
import { bytes } from "../format/quantity.ts";

const NAME_RULE =
  "Lower-case letters, digits and inner hyphens, beginning with a letter; at most 63";

/** Name and size; everything else follows from them. */
export function CreateClusterForm() {
  const trpc = useTRPC();
  const router = useRouter();
  const queryClient = useQueryClient();
  const form = useForm<{ name: string; size: ClusterSize }>({
    initialValues: { name: "", size: "dev" },
    validateInputOnBlur: true,
    validate: { name: (value) => (CLUSTER_NAME_PATTERN.test(value) ? null : NAME_RULE) },
  });
  const create = useMutation(
    trpc.cluster.create.mutationOptions({
      onSuccess: (cluster) => {
        void queryClient.invalidateQueries(trpc.cluster.list.pathFilter());
        router.push(`/clusters/${cluster.metadata.id}`);
      },
      onError: (error) => {
        if (statusOf(error) === 409) form.setFieldError("name", messageOf(error));
      },
    }),
  );
  const refused = create.error && statusOf(create.error) !== 409;

  return (
    <Stack maw={760} gap="lg">
      <div>
        <Anchor component={Link} href="/clusters" fz="sm">
          Clusters
        </Anchor>
        <Title order={1} fz="h2">
          Create cluster
        </Title>
      </div>
      <form
        onSubmit={form.onSubmit((values) => create.mutate({ ...values, region: "local" }))}
        noValidate
      >
        <Stack gap="lg">
          <Card>
            <TextInput
              label="Name"
              description={NAME_RULE}
              placeholder="orders"
              data-autofocus
              autoComplete="off"
              {...form.getInputProps("name")}
            />
          </Card>
          <Card>
            <Radio.Group label="Size" {...form.getInputProps("size")}>
              <SimpleGrid cols={{ base: 1, sm: 3 }} mt="sm">
                {CLUSTER_SIZE_NAMES.map((size) => (
                  <SizeCard key={size} size={size} />
                ))}
              </SimpleGrid>
            </Radio.Group>
          </Card>
          {refused && (
            <Alert color="red" role="alert">
              {messageOf(create.error)}
            </Alert>
          )}
          <Group>
            <Button type="submit" loading={create.isPending}>
              Create cluster
            </Button>
            <Button component={Link} href="/clusters" variant="default">
              Cancel
            </Button>
          </Group>
        </Stack>
      </form>
    </Stack>
  );
}

function SizeCard({ size }: { size: ClusterSize }) {
  const sizing = sizingOf(size);
  return (
    <Radio.Card value={size} p="md" radius="md">
      <Group wrap="nowrap" align="flex-start" gap="sm">
        <Radio.Indicator mt={2} />
        <Stack gap={4}>
          <Text fw={600} fz="sm">
            {sizing.title}
          </Text>
          <Text fz="xs" className="quiet">
            Write-ahead log {bytes(sizing.walBytes)}
          </Text>
          <Text fz="xs" className="quiet">
            Tail cache {bytes(sizing.walCacheBytes)}
          </Text>
          <Text fz="xs" className="quiet">
            Catch-up cache {bytes(sizing.blockCacheBytes)}
          </Text>
        </Stack>
      </Group>
    </Radio.Card>
  );
}
