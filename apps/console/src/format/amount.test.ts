import { describe, expect, it, test } from "vitest";
import { amountOf, everyByte, exactly, unitFor, unitNamed, unitsOf } from "./amount.ts";

const MIB = 1024 ** 2;

describe("amounts", () => {
  test.each([
    [128 * MIB, "128 MiB"],
    [1.5 * 1024 * MIB, "1.5 GiB"],
    [1_152 * MIB, "1,152 MiB"],
    [512 * 1024, "512 KiB"],
    [128 * MIB + 1, "134,217,729 bytes"],
    [0, "0 bytes"],
  ])("%d bytes are %s, with no byte lost", (amount, text) => {
    expect(exactly("bytes", amount)).toBe(text);
  });

  test.each([
    [100 * MIB, "100 MiB/s"],
    [50_000_000, "50 MB/s"],
    [12_500_000_000, "100 Gbit/s"],
    [1_048_577, "1,048,577 bytes/s"],
  ])("%d bytes per second are %s", (amount, text) => {
    expect(exactly("bytes_per_second", amount)).toBe(text);
  });

  it("shows each byte to those who want it", () => {
    expect(everyByte("bytes", 128 * MIB)).toBe("134,217,728 bytes");
    expect(everyByte("bytes_per_second", MIB)).toBe("1,048,576 bytes/s");
  });

  it("reads what was typed as whole bytes", () => {
    expect(amountOf("1.5", unitNamed("bytes", "GiB"))).toBe(1.5 * 1024 ** 3);
    expect(amountOf("0.1", unitNamed("bytes", "KiB"))).toBe(102);
    for (const nothing of ["", " ", "-", "-1", "much", "1e300"]) {
      expect(amountOf(nothing, unitNamed("bytes", "MiB"))).toBeUndefined();
    }
  });

  it("reads back what it writes, in every unit", () => {
    for (const kind of ["bytes", "bytes_per_second"] as const) {
      for (const { bytes } of unitsOf(kind)) {
        for (const amount of [bytes, 3 * bytes, 1.25 * bytes].map(Math.round)) {
          const unit = unitFor(kind, amount);
          expect(amountOf(String(amount / unit.bytes), unit)).toBe(amount);
        }
      }
    }
  });
});
