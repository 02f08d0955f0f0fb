import { List, Stack, Text } from "@mantine/core";
import { brokersAloneInZone, zonedSlots } from "@millrace/domain";

interface ZoneSpreadProps {
  brokers: number;
  /** By name, in the order in which brokers go round them. */
  zones: readonly string[];
}

/** Where several brokers on AWS are, and what that means when one fails. */
export function ZoneSpread({ brokers, zones }: ZoneSpreadProps) {
  const slots = zonedSlots(brokers, zones.length);
  const alone = brokersAloneInZone(brokers, zones.length);
  return (
    <Stack gap={4} data-zone-spread>
      <List fz="sm" spacing={2}>
        {zones.map((zone, zoneIndex) => {
          const ids = slots.filter((slot) => slot.zoneIndex === zoneIndex).map(({ id }) => id);
          return <List.Item key={zone}>{`${zone}: ${brokersText(ids)}`}</List.Item>;
        })}
      </List>
      <Text fz="xs" className="quiet">
        The brokers share a PostgreSQL database of RDS in two zones, which the estimate includes.
      </Text>
      {alone.length > 0 && (
        <Text fz="xs" className="quiet">
          {`If a broker fails that is the only one in its zone (${alone.join(", ")}), its partitions wait until its instance is replaced, because volumes cannot leave their zone. With ${2 * zones.length} brokers, each zone has two, which take over from each other.`}
        </Text>
      )}
    </Stack>
  );
}

function brokersText(ids: readonly number[]): string {
  if (ids.length === 0) return "no broker";
  return ids.length === 1 ? `broker ${ids[0]}` : `brokers ${ids.join(", ")}`;
}
