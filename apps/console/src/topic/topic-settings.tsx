"use client";

import { Badge, Button, Code, Group, NativeSelect, Table, Text, TextInput } from "@mantine/core";
import { SETTING_CHOICES, settingNote, settingWords } from "./setting-words.ts";
import type { ShownSetting } from "./topic-draft.ts";

interface TopicSettingsProps {
  settings: readonly ShownSetting[];
  onOverride: (name: string, override: string | null | undefined) => void;
}

/** A topic's settings: current value, source and new value. */
export function TopicSettings({ settings, onOverride }: TopicSettingsProps) {
  return (
    <Table className="stacked" verticalSpacing="xs" aria-label="Settings" highlightOnHover={false}>
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
            <Table.Td w={{ base: "100%", sm: "52%" }}>
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
        <SettingValue name={name} value={value} />
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
        <NewValue name={name} value={override} onChange={onOverride} />
      )}
      <Small label={`Cancel: ${name}`} text="Cancel" onClick={() => onOverride(undefined)} />
    </Group>
  );
}

/** The value as the broker has it, and as people read it. */
export function SettingValue({ name, value }: Pick<ShownSetting, "name" | "value">) {
  const words = settingWords(name, value);
  return (
    <Group gap="xs">
      <Code style={{ overflowWrap: "anywhere" }}>{value ?? "hidden"}</Code>
      {words !== undefined && (
        <Text fz="xs" className="quiet">
          {words}
        </Text>
      )}
    </Group>
  );
}

export function NewValue(props: {
  name: string;
  value: string;
  onChange: (value: string) => void;
}) {
  const { name, value, onChange } = props;
  const choices = SETTING_CHOICES[name];
  const label = `${name}, new value`;
  if (choices === undefined) {
    return (
      <TextInput
        flex={1}
        size="xs"
        aria-label={label}
        autoFocus
        value={value}
        onChange={(event) => onChange(event.currentTarget.value)}
      />
    );
  }
  return (
    <NativeSelect
      flex={1}
      size="xs"
      aria-label={label}
      autoFocus
      // A value that came from elsewhere, such as "delete,compact", stays what it is.
      data={choices.includes(value) ? [...choices] : [value, ...choices]}
      value={value}
      description={settingNote(name, value)}
      inputWrapperOrder={["label", "input", "description", "error"]}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}

function Small(props: { label: string; text: string; onClick: () => void }) {
  return (
    <Button variant="subtle" size="compact-xs" aria-label={props.label} onClick={props.onClick}>
      {props.text}
    </Button>
  );
}
