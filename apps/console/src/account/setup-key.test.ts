import { expect, test } from "vitest";
import { setupKey } from "./setup-key.ts";

test("the key is shown in groups of four", () => {
  expect(setupKey("otpauth://totp/Millrace:a@example.com?secret=ABCDEFGHIJ&digits=6")).toBe(
    "ABCD EFGH IJ",
  );
});
