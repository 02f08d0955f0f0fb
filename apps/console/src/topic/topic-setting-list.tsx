import { Badge, Card, Group, Table, Text } from "@mantine/core";
import type { Topic } from "@millrace/contract";
import { settingsOf, topicDraftOf } from "./topic-draft.ts";
import { SettingValue } from "./topic-settings.tsx";

/** Every setting of a topic, for those who may not change any. */
export function TopicSettingList({ topic }: { topic: Topic }) {
  return (
    <Card padding={0}>
      <Table className="stacked" horizontalSpacing="lg" aria-label="Settings">
        <Table.Tbody>
          {settingsOf(topic, topicDraftOf(topic), true).map(({ name, value, own }) => (
            <Table.Tr key={name}>
              <Table.Td>
                <Group gap={6}>
                  <Text ff="monospace" fz="sm">
                    {name}
                  </Text>
                  {own && (
                    <Badge variant="outline" c="inherit" tt="none" fw={500} size="sm">
                      custom
                    </Badge>
                  )}
                </Group>
              </Table.Td>
              <Table.Td>
                <SettingValue name={name} value={value} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Card>
  );
}
