import { MantineProvider } from "@mantine/core";
import type { ChangePlan } from "@millrace/contract";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { RecoveryReport } from "./recovery-report.tsx";

type Report = NonNullable<ChangePlan["recovery"]>;

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

test("a loss is shown by partition, offsets and time, with those that are not listed counted", () => {
  const loss = {
    topic: "orders",
    partition: 3,
    from_offset: "9007199254740993",
    to_offset: "9007199254741000",
  };
  const acknowledged_by = "2026-11-22T10:00:05Z";
  const text = html({ missing: [{ ...loss, acknowledged_by }], missing_partitions: 3 });
  for (const part of ["orders-3", "9007199254740993", "9007199254741000", acknowledged_by]) {
    expect(text).toContain(part);
  }
  expect(text).toContain("missing in 3 partitions");
  expect(text).toContain("And 2 more partitions.");
});

test("with the write-ahead log nothing is missing; without it that is said with its limit", () => {
  const whole = html({ source: "bucket+wal", records_from_wal: "100000" });
  expect(whole).toContain("100000 records are read from it");
  expect(whole).not.toContain("last second");
  expect(html({})).toContain("last second");
});
