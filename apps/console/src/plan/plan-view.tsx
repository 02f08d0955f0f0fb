"use client";

import { Accordion, Badge, Box, Code, Group, Stack, Table, Text } from "@mantine/core";
import { IconArrowRight } from "@tabler/icons-react";
import { groupsOf, type PlanGroup, type PlannedChange } from "./plan-groups.ts";

const ACTIONS: Record<PlannedChange["action"], { word: string; color: string }> = {
  create: { word: "create", color: "green" },
  update: { word: "change", color: "blue" },
  replace: { word: "replace", color: "orange" },
  delete: { word: "delete", color: "red" },
  read: { word: "read", color: "gray" },
  import: { word: "import", color: "violet" },
};

/** Small plans are shown expanded. */
const OPEN_MAX = 6;

/** Resources to create, change and delete, each with its attributes before and after. */
export function PlanView({ changes }: { changes: readonly PlannedChange[] }) {
  const groups = groupsOf(changes);
  if (groups.length === 0) {
    return (
      <Text fz="sm" className="quiet">
        No changes.
      </Text>
    );
  }
  return (
    <Accordion
      multiple
      variant="separated"
      chevronPosition="left"
      order={4}
      defaultValue={changes.length <= OPEN_MAX ? groups.map(idOf) : []}
    >
      {groups.map((group) => (
        <GroupItem key={group.title} group={group} />
      ))}
    </Accordion>
  );
}

/** Becomes part of the ids of control and panel, which refer to each other. */
function idOf({ title }: PlanGroup): string {
  return title.replaceAll(" ", "-");
}

function GroupItem({ group }: { group: PlanGroup }) {
  const { title, changes } = group;
  return (
    <Accordion.Item value={idOf(group)} data-plan-group={title}>
      <Accordion.Control>
        <Group justify="space-between" wrap="nowrap" pr="sm">
          <Text fw={600} fz="sm">
            {title}
          </Text>
          <Group gap={6} wrap="nowrap">
            <Counts changes={changes} />
          </Group>
        </Group>
      </Accordion.Control>
      <Accordion.Panel>
        <Stack gap="sm">
          {changes.map((change) => (
            <ChangeItem key={change.address} change={change} />
          ))}
        </Stack>
      </Accordion.Panel>
    </Accordion.Item>
  );
}

function Counts({ changes }: { changes: readonly PlannedChange[] }) {
  return Object.entries(ACTIONS).map(([action, { word, color }]) => {
    const count = changes.filter((change) => change.action === action).length;
    if (count === 0) return null;
    return (
      <Badge key={action} variant="outline" color={color} c="inherit" tt="none" fw={500}>
        {count} {word}
      </Badge>
    );
  });
}

function ChangeItem({ change }: { change: PlannedChange }) {
  const { word, color } = ACTIONS[change.action];
  return (
    <Box data-planned={change.address} data-action={change.action}>
      <Group gap="xs">
        <Badge variant="outline" color={color} c="inherit" tt="none" fw={500} miw={76}>
          {word}
        </Badge>
        <Code fz="xs" style={{ overflowWrap: "anywhere" }}>
          {change.address}
        </Code>
      </Group>
      {change.attributes.length > 0 && <Attributes change={change} />}
    </Box>
  );
}

function Attributes({ change: { address, action, attributes } }: { change: PlannedChange }) {
  return (
    <Table
      verticalSpacing={2}
      mt={4}
      fz="xs"
      aria-label={`Attributes of ${address}`}
      withRowBorders={false}
      highlightOnHover={false}
    >
      <Table.Tbody>
        {attributes.map(({ name, before, after }) => (
          <Table.Tr key={JSON.stringify([name, before, after])}>
            <Table.Td w="32%" className="quiet" style={{ overflowWrap: "anywhere" }}>
              {name}
            </Table.Td>
            <Table.Td style={{ overflowWrap: "anywhere" }} className="number">
              {action !== "create" && before !== null && (
                <>
                  <span className="quiet">{before}</span>{" "}
                  <IconArrowRight size={12} role="img" aria-label="becomes" />{" "}
                </>
              )}
              {after ?? "none"}
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
