import type { Database, MetricReadings } from "@millrace/db";
import type { OrganizationId } from "@millrace/domain";
import { expect, test } from "vitest";
import { ReadingWriter } from "./reading-writer.ts";

const ORG: OrganizationId = "org_01JD0000000000000000000000";
const OTHER: OrganizationId = "org_01JD0000000000000000000001";
/** Told apart by their resolution. */
const READING: MetricReadings = { resolution: 10 };
const NEXT: MetricReadings = { resolution: 60 };
const DENIED: MetricReadings = { resolution: 600 };

function recording() {
  const written: { organizationId: string; resolutions: number[] }[] = [];
  const tenant = (organizationId: string) => ({
    metrics: {
      add: async (readings: MetricReadings[]) => {
        const resolutions = readings.map(({ resolution }) => resolution as number);
        if (resolutions.includes(600)) throw new Error("denied");
        written.push({ organizationId, resolutions });
      },
    },
  });
  const db = { tenant } as unknown as Pick<Database, "tenant">;
  return { written, writer: new ReadingWriter(db) };
}

test("what comes during a transaction is one more, of its organization alone", async () => {
  const { written, writer } = recording();
  await Promise.all([
    ...[writer.add(ORG, [READING]), writer.add(ORG, [NEXT]), writer.add(ORG, [READING, NEXT])],
    writer.add(OTHER, [NEXT]),
  ]);
  await writer.add(ORG, [NEXT]);
  const of = (id: OrganizationId) =>
    written.filter((each) => each.organizationId === id).map(({ resolutions }) => resolutions);
  expect(of(ORG)).toEqual([[10], [60, 10, 60], [60]]);
  expect(of(OTHER)).toEqual([[60]]);
});

test("a cluster whose readings are refused costs no other one its own", async () => {
  const { written, writer } = recording();
  const results = await Promise.allSettled(
    [READING, NEXT, DENIED, READING].map((each) => writer.add(ORG, [each])),
  );
  expect(results.map(({ status }) => status)).toEqual([
    ...["fulfilled", "fulfilled", "rejected", "fulfilled"],
  ]);
  expect(written.flatMap(({ resolutions }) => resolutions)).toEqual([10, 60, 10]);
});
