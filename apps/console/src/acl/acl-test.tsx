"use client";

import { Button, Card, Select, SimpleGrid, Stack, Text, TextInput, Title } from "@mantine/core";
import { useForm } from "@mantine/form";
import {
  ACL_PRINCIPAL_PATTERN,
  ACL_RESOURCE_TYPES,
  type AclOperation,
  type AclResourceType,
  aclOperationsOf,
} from "@millrace/domain";
import { IconBan, IconCheck } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTRPC } from "../api/client.tsx";
import { ProblemAlert } from "../shell/problem-alert.tsx";
import { ResultBadge, type ResultLook } from "../shell/result-badge.tsx";
import { aclWords, REASON_WORDS } from "./acl-words.ts";
import { optionsOf } from "./create-acl-dialog.tsx";

const ALLOWED: ResultLook = ["green", IconCheck, "Allowed"];
const DENIED: ResultLook = ["red", IconBan, "Denied"];

interface Question {
  principal: string;
  operation: AclOperation;
  resource_type: AclResourceType;
  resource_name: string;
}

const EMPTY: Question = {
  principal: "User:",
  operation: "read",
  resource_type: "topic",
  resource_name: "",
};

/** What somebody can want to do to a resource: one thing at a time. */
function questionsOf(type: AclResourceType): AclOperation[] {
  return aclOperationsOf(type).filter((each) => each !== "all");
}

/** Asks what a principal may do, and which ACL decides. */
export function AclTest({ clusterId }: { clusterId: string }) {
  const [asked, setAsked] = useState<Question>();
  const form = useForm({
    initialValues: EMPTY,
    // An answer to another question would be taken for the answer to this one.
    onValuesChange: () => setAsked(undefined),
    validate: {
      principal: (value) =>
        ACL_PRINCIPAL_PATTERN.test(value) ? null : "Enter a principal like User:alice",
      resource_name: (value) => (value.trim() ? null : "Enter the resource's name"),
    },
  });
  const operations = questionsOf(form.getValues().resource_type);
  return (
    <Card component="section" aria-label="Test a principal">
      <form noValidate onSubmit={form.onSubmit(setAsked)}>
        <Stack>
          <Title order={2} fz="h4">
            Test a principal
          </Title>
          <Text c="dimmed" fz="sm">
            One operation on one resource. Create on the cluster also lets clients create any topic.
          </Text>
          <SimpleGrid cols={{ base: 1, xs: 2, md: 4 }}>
            <TextInput label="Tested principal" {...form.getInputProps("principal")} />
            <Select
              label="Operation"
              data={optionsOf(operations)}
              allowDeselect={false}
              {...form.getInputProps("operation")}
            />
            <Select
              label="Resource"
              data={optionsOf(ACL_RESOURCE_TYPES)}
              allowDeselect={false}
              {...form.getInputProps("resource_type")}
              // Other resources know other operations.
              onChange={(value) => {
                const resource_type = value as AclResourceType;
                const [operation = "describe"] = questionsOf(resource_type);
                form.setValues({ resource_type, operation });
              }}
            />
            <TextInput
              label="Name"
              placeholder="e.g. orders"
              {...form.getInputProps("resource_name")}
            />
          </SimpleGrid>
          <Button type="submit" variant="default" style={{ alignSelf: "start" }}>
            Test
          </Button>
          {asked !== undefined && <Answer clusterId={clusterId} question={asked} />}
        </Stack>
      </form>
    </Card>
  );
}

function Answer({ clusterId, question }: { clusterId: string; question: Question }) {
  const trpc = useTRPC();
  const { data, error } = useQuery(
    trpc.acl.test.queryOptions({ cluster_id: clusterId, ...question }, { retry: false }),
  );
  if (error) return <ProblemAlert error={error} title="Cannot test the principal" />;
  if (data === undefined) return null;
  return (
    <Stack gap={4} role="status">
      <ResultBadge
        result={data.allowed ? "allowed" : "denied"}
        look={data.allowed ? ALLOWED : DENIED}
        note={REASON_WORDS[data.reason]}
      />
      {data.acl !== null && (
        <Text fz="sm" style={{ overflowWrap: "anywhere" }}>
          {aclWords(data.acl)}
        </Text>
      )}
    </Stack>
  );
}
