import { describe, expect, it } from "vitest";
import { byteRate, bytes, count, int64, latency, share, times } from "./quantity.ts";

describe("quantities", () => {
  it("scales bytes by 1024", () => {
    expect(bytes(0)).toBe("0 B");
    expect(bytes(1023)).toBe("1023 B");
    expect(bytes(1536)).toBe("1.5 KiB");
    expect(byteRate(100 * 1024 ** 2)).toBe("100 MiB/s");
  });

  it("scales counts by 1000", () => {
    expect(count(999)).toBe("999");
    expect(count(12_345)).toBe("12.3k");
    expect(count(2_000_000)).toBe("2M");
  });

  it("keeps small latencies readable", () => {
    expect(latency(0.84)).toBe("0.84 ms");
    expect(latency(12)).toBe("12 ms");
    expect(latency(1_200)).toBe("1.2 s");
  });

  it("writes ratios", () => {
    expect(share(0.934)).toBe("93.4 %");
    expect(share(1)).toBe("100 %");
    expect(times(1.04)).toBe("1.04×");
  });

  it("loses no digit of a 64-bit number", () => {
    expect(int64("9223372036854775807")).toBe("9,223,372,036,854,775,807");
  });
});
