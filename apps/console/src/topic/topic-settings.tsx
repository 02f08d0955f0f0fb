"use client";

import { Badge, Button, Code, Group, Table, Text, TextInput } from "@mantine/core";
import type { ShownSetting } from "./topic-draft.ts";

interface TopicSettingsProps {
  settings: readonly ShownSetting[];
  onOverride: (name: string, override: string | null | undefined) => void;
}

/** A topic's settings: current value, source and new value. */
export function TopicSettings({ settings, onOverride }: TopicSettingsProps) {
  return (
    <Table verticalSpacing="xs" aria-label="Settings" highlightOnHover={false}>
      <Table.Tbody>
        {settings.map((setting) => (
          <Table.Tr key={setting.name} data-setting={setting.name}>
            <Table.Td>
              <Group gap={6}>
                <Text ff="monospace" fz="sm">
                  {setting.name}
                </Text>
                {setting.own && (
                  <Badge variant="outline" c="inherit" tt="none" fw={500} size="sm">
                    custom
                  </Badge>
                )}
              </Group>
            </Table.Td>
            <Table.Td w="52%">
              <Value
                setting={setting}
                onOverride={(override) => onOverride(setting.name, override)}
              />
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

function Value(props: {
  setting: ShownSetting;
  onOverride: (override: string | null | undefined) => void;
}) {
  const { setting, onOverride } = props;
  const { name, value, own, override } = setting;
  if (override === undefined) {
    return (
      <Group gap="xs" wrap="nowrap" justify="space-between">
        <Code style={{ overflowWrap: "anywhere" }}>{value ?? "hidden"}</Code>
        <Group gap={4} wrap="nowrap">
          <Small label={`Change ${name}`} text="Change" onClick={() => onOverride(value ?? "")} />
          {own && (
            <Small
              label={`Reset ${name} to default`}
              text="Reset"
              onClick={() => onOverride(null)}
            />
          )}
        </Group>
      </Group>
    );
  }
  return (
    <Group gap="xs" wrap="nowrap">
      {override === null ? (
        <Text fz="sm" flex={1}>
          reset to default
        </Text>
      ) : (
        <TextInput
          flex={1}
          size="xs"
          aria-label={`${name}, new value`}
          autoFocus
          value={override}
          onChange={(event) => onOverride(event.currentTarget.value)}
        />
      )}
      <Small label={`Cancel: ${name}`} text="Cancel" onClick={() => onOverride(undefined)} />
    </Group>
  );
}

function Small(props: { label: string; text: string; onClick: () => void }) {
  return (
    <Button variant="subtle" size="compact-xs" aria-label={props.label} onClick={props.onClick}>
      {props.text}
    </Button>
  );
}
