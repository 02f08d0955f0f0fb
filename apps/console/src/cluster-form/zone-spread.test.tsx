import { MantineProvider } from "@mantine/core";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { inRegion, NEW_CLUSTER } from "./cluster-draft.ts";
import { estimateOf } from "./estimate.ts";
import { ZoneSpread } from "./zone-spread.tsx";

const ZONES = ["eu-central-1a", "eu-central-1b", "eu-central-1c"];

function textOf(brokers: number): string {
  return renderToStaticMarkup(
    <MantineProvider>
      <ZoneSpread brokers={brokers} zones={ZONES} />
    </MantineProvider>,
  );
}

test("it says which broker is in which zone, and which has no other one beside it", () => {
  const four = textOf(4);
  expect(four).toContain("eu-central-1a: brokers 1, 4");
  expect(four).toContain("eu-central-1b: broker 2");
  expect(four).toContain("the only one in its zone (2, 3)");
  expect(textOf(2)).toContain("eu-central-1c: no broker");
  expect(textOf(6)).not.toContain("the only one");
});

test("the estimate has each broker, and the database that several share", () => {
  const draft = inRegion({ ...NEW_CLUSTER, name: "orders" }, "eu-central-1");
  const itemsOf = (brokers: number) =>
    (estimateOf({ ...draft, brokers })?.lines ?? []).map(({ item }) => item).join();
  expect(itemsOf(1)).not.toContain("RDS");
  expect(itemsOf(3)).toContain("RDS PostgreSQL db.t4g.small in two zones");
  const hours = estimateOf({ ...draft, brokers: 3 })?.lines.find(({ unit }) => unit === "hour");
  expect(hours?.quantity).toBe(3 * 730);
});
