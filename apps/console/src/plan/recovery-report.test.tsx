import { MantineProvider } from "@mantine/core";
import type { ChangePlan } from "@millrace/contract";
import { MISSING_SHOWN_MAX } from "@millrace/domain";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { exactMoment } from "../format/time.ts";
import { RecoveryReport } from "./recovery-report.tsx";

type Report = NonNullable<ChangePlan["recovery"]>;

const LOSS = {
  topic: "orders",
  partition: 3,
  from_offset: "9007199254740993",
  to_offset: "9007199254741000",
  acknowledged_by: "2026-11-22T10:00:05Z",
};

const REPORT: Report = {
  source: "bucket",
  recovered_to: "2026-11-22T10:00:00Z",
  topics: 2,
  partitions: 4,
  records_from_wal: "0",
  bytes_from_wal: "0",
  missing_partitions: 0,
  missing: [],
  warnings: [],
};

function html(report: Partial<Report>): string {
  return renderToStaticMarkup(
    <MantineProvider>
      <RecoveryReport report={{ ...REPORT, ...report }} />
    </MantineProvider>,
  );
}

test("a loss is shown by partition, records, offsets and time, with those not listed counted", () => {
  const text = html({ missing: [LOSS], missing_partitions: 3 });
  const exact = exactMoment(LOSS.acknowledged_by);
  for (const part of ["orders-3", "9,007,199,254,740,993", "9,007,199,254,741,000", exact]) {
    expect(text).toContain(part);
  }
  expect(text).not.toContain("Only the first");
  expect(text).toContain("At least 7 acknowledged records are missing in 3 partitions");
  expect(text).toContain("And 2 more partitions.");
});

test("a loss that is listed whole has its total", () => {
  const other = { ...LOSS, partition: 4, from_offset: "10", to_offset: "1510" };
  const text = html({ missing: [LOSS, other], missing_partitions: 2 });
  expect(text).toMatch(/title[^>]*>1,507 acknowledged records are missing in 2 partitions/);
  expect(text).toMatch(/Total<.*>1,507</);
});

test("a list that reaches its bound says that it may not be whole", () => {
  const missing = Array.from({ length: MISSING_SHOWN_MAX }, (_, n) => ({ ...LOSS, partition: n }));
  const text = html({ missing, missing_partitions: MISSING_SHOWN_MAX });
  expect(text).toContain(`Only the first ${MISSING_SHOWN_MAX} ranges are listed.`);
});

test("with the write-ahead log nothing is missing; without it nobody can say so", () => {
  const whole = html({ source: "bucket+wal", records_from_wal: "100000" });
  expect(whole).toContain("100,000 records are read from it");
  expect(whole).toContain("No acknowledged record is missing");
  expect(html({ source: "bucket+wal" })).toContain("All records are in the bucket already.");
  expect(html({})).toContain("No missing records are known");
  expect(html({})).not.toContain("No acknowledged record is missing");
});

test("one topic with one partition comes back; times and warnings read as text", () => {
  const text = html({
    ...{ topics: 1, partitions: 1 },
    warnings: ["records acknowledged after 2026-11-22T10:00:00.123Z are missing"],
  });
  expect(text).toContain("1 topic with 1 partition, internal");
  expect(text).toContain("comes back as of");
  const time = exactMoment("2026-11-22T10:00:00.123Z");
  expect(text).toContain(`Records acknowledged after ${time} are missing.`);
});
