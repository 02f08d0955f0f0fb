import { describe, expect, it } from "vitest";
import { unitPrice, usd, usdChange } from "./money.ts";

describe("money", () => {
  it("has thousands apart and two digits", () => {
    expect(usd(1234.5)).toBe("$1,234.50");
    expect(usd(-3.1)).toBe("−$3.10");
    expect(usd(-0.001)).toBe("$0.00");
  });

  it("says which way it changes", () => {
    expect(usdChange(12)).toBe("+$12.00");
    expect(usdChange(-3.1)).toBe("−$3.10");
    expect(usdChange(0.001)).toBe("±$0.00");
  });

  it("keeps the digits of a small price", () => {
    expect(unitPrice(0.0000004)).toBe("$0.0000004");
    expect(unitPrice(0.08)).toBe("$0.08");
  });
});
