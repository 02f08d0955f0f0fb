import { expect, test } from "vitest";
import { deviceOf } from "./device.ts";

const CHROME = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0";

test.each([
  ["Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"],
  [`Mozilla/5.0 (Windows NT 10.0) ${CHROME} Safari/537.36 Edg/140.0`, "Edge on Windows"],
  [`Mozilla/5.0 (Linux; Android 16) ${CHROME} Mobile Safari/537.36`, "Chrome on Android"],
  ["Mozilla/5.0 (Macintosh; Intel Mac OS X 15_0) Version/19.0 Safari/605.1", "Safari on macOS"],
  ["curl/8.0", "Unknown device"],
  ["", "Unknown device"],
])("%s", (userAgent, device) => {
  expect(deviceOf(userAgent)).toBe(device);
});
