import type { IncomingMessage } from "node:http";
import { CLIENT_IP_HEADER } from "@millrace/auth";
import { expect, test } from "vitest";
import { withClientAddress } from "./client-address.ts";

function addressOf(peer: string, headers: Record<string, string>): string | null {
  const request = new Request("http://localhost/", { headers });
  const incoming = { socket: { remoteAddress: peer } } as IncomingMessage;
  return withClientAddress(request, incoming).headers.get(CLIENT_IP_HEADER);
}

test("a client cannot say who it is", () => {
  const forged = { [CLIENT_IP_HEADER]: "6.6.6.6", "x-forwarded-for": "6.6.6.6" };
  expect(addressOf("198.51.100.7", forged)).toBe("198.51.100.7");
});

test("the console on this machine says for whom it asks", () => {
  expect(addressOf("127.0.0.1", { "x-forwarded-for": "203.0.113.9, 10.0.0.1" })).toBe(
    "203.0.113.9",
  );
  expect(addressOf("::1", {})).toBe("::1");
  expect(addressOf("127.0.0.1", { [CLIENT_IP_HEADER]: "6.6.6.6" })).toBe("127.0.0.1");
});
