import { expect, test } from "vitest";
import { benchmark } from "./benchmark.fixture.ts";
import { bytesWritten, draftErrors, draftOf, newDraft, requestOf } from "./benchmark-draft.ts";

const MIB = 1024 ** 2;
/** Of the smallest size. */
const DEV_WAL = 256 * MIB;
const draft = newDraft(DEV_WAL);

test("a new draft is valid for every size, and gentle", () => {
  for (const walBytes of [DEV_WAL, 8 * DEV_WAL, 32 * DEV_WAL]) {
    expect(draftErrors(newDraft(walBytes), walBytes)).toEqual({});
    expect(newDraft(walBytes).mebibytesPerSecond).toBe(16);
  }
  expect(bytesWritten(draft)).toBe(480 * MIB);
});

test.each([
  [{ seconds: 9 }, "seconds", "Enter 10 or more"],
  [{ seconds: 301 }, "seconds", "Enter 300 or less"],
  [{ seconds: "" }, "seconds", "Enter a whole number"],
  [{ recordBytes: 1_048_577 }, "recordBytes", "Enter 1,048,576 or less"],
  [{ recordBytes: 16, workload: "end_to_end" as const }, "recordBytes", "Enter 32 or more"],
  [{ partitions: 65 }, "partitions", "Enter 64 or less"],
  [{ mebibytesPerSecond: 65 }, "mebibytesPerSecond", "Enter 64 or less"],
  [{ mebibytesPerSecond: "" }, "mebibytesPerSecond", "Enter a number above 0"],
  [{ mebibytesPerSecond: 0.0001 }, "mebibytesPerSecond", "Enter at least one record per second"],
])("%j is refused at its field", (change, field, message) => {
  expect(draftErrors({ ...draft, ...change }, DEV_WAL)).toEqual({ [field]: message });
});

test("more than a benchmark writes is refused where the rate is typed", () => {
  const { mebibytesPerSecond } = draftErrors(
    { ...draft, seconds: 300, mebibytesPerSecond: 60 },
    DEV_WAL,
  );
  expect(mebibytesPerSecond).toBe("This writes 17.6 GiB; a benchmark writes at most 16 GiB");
});

test("the load of an earlier benchmark is offered again, within what the size allows now", () => {
  expect(draftOf(benchmark(), DEV_WAL)).toEqual(draft);
  const fast = benchmark({ bytes_per_second: 500 * MIB, workload: "catch_up" });
  expect(draftOf(fast, 8 * DEV_WAL).mebibytesPerSecond).toBe(500);
  expect(draftOf(fast, DEV_WAL)).toMatchObject({ mebibytesPerSecond: 64, workload: "catch_up" });
  expect(draftErrors(draftOf(fast, DEV_WAL), DEV_WAL)).toEqual({});
});

test("the API is asked in bytes", () => {
  expect(requestOf("clu_test", { ...draft, mebibytesPerSecond: 0.5 })).toEqual({
    cluster_id: "clu_test",
    workload: "produce",
    duration_seconds: 30,
    record_size_bytes: 1_024,
    bytes_per_second: 524_288,
    partitions: 4,
  });
});
