import { expect, test } from "vitest";
import { brokersAloneInZone, zonedSlots } from "./broker-slot.ts";

test("brokers go round the zones, and stay where they are when more come", () => {
  const five = zonedSlots(5, 3);
  expect(five.map(({ id, zoneIndex }) => [id, zoneIndex])).toEqual([
    [1, 0],
    [2, 1],
    [3, 2],
    [4, 0],
    [5, 1],
  ]);
  expect(zonedSlots(3, 3)).toEqual(five.slice(0, 3));
  expect(zonedSlots(1, 3)).toEqual([{ id: 0, zoneIndex: 0 }]);
});

test("a broker is alone in its zone until each zone has two", () => {
  expect(brokersAloneInZone(3, 3)).toEqual([1, 2, 3]);
  expect(brokersAloneInZone(5, 3)).toEqual([3]);
  expect(brokersAloneInZone(6, 3)).toEqual([]);
  expect(brokersAloneInZone(4, 2)).toEqual([]);
});
