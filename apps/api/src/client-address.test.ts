import type { IncomingMessage } from "node:http";
import { CLIENT_IP_HEADER } from "@millrace/auth";
import { expect, test } from "vitest";
import {
  addressNetwork,
  clientAddress,
  TrustedProxies,
  withClientAddress,
} from "./client-address.ts";

function addressOf(peer: string, forwarded: string | undefined, proxies = new TrustedProxies()) {
  const headers = new Headers(forwarded === undefined ? {} : { "x-forwarded-for": forwarded });
  const incoming = { socket: { remoteAddress: peer } } as IncomingMessage;
  return clientAddress(headers, incoming, proxies);
}

test("a client cannot say who it is", () => {
  expect(addressOf("198.51.100.7", "6.6.6.6")).toBe("198.51.100.7");
  const forged = new Request("http://localhost/", { headers: { [CLIENT_IP_HEADER]: "6.6.6.6" } });
  expect(withClientAddress(forged, "198.51.100.7").headers.get(CLIENT_IP_HEADER)).toBe(
    "198.51.100.7",
  );
});

test("nor through the console on this machine, which appends whom it sees", () => {
  expect(addressOf("127.0.0.1", "6.6.6.6, 203.0.113.9")).toBe("203.0.113.9");
  expect(addressOf("::ffff:127.0.0.1", "6.6.6.6, ::ffff:203.0.113.9")).toBe("203.0.113.9");
  expect(addressOf("::1", undefined)).toBe("::1");
  expect(addressOf("127.0.0.1", "6.6.6.6, unknown")).toBe("127.0.0.1");
});

test("hops of trusted proxies are passed over, and only those", () => {
  const proxies = new TrustedProxies("10.0.0.0/16, fd00::/8");
  expect(addressOf("10.0.3.4", "6.6.6.6, 203.0.113.9, 10.0.1.1, fd00::2", proxies)).toBe(
    "203.0.113.9",
  );
  expect(addressOf("10.1.0.1", "203.0.113.9", proxies)).toBe("10.1.0.1");
  expect(addressOf("127.0.0.1", "203.0.113.9", proxies)).toBe("127.0.0.1");
});

test.each(["10.0.0.0/33", "10.0.0.0/", "proxy.example", "10.0.0.0/x", "10.0.0.0/-1"])(
  "%j is no network",
  (network) => {
    expect(() => new TrustedProxies(network)).toThrow(network);
  },
);

test.each([
  ["203.0.113.9", "203.0.113.9"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
  ["2001:db8::1", "2001:db8:0:0::/64"],
  ["::1", "0:0:0:0::/64"],
  ["2001:db8:1:2::", "2001:db8:1:2::/64"],
])("limits count %s as %s", (address, network) => {
  expect(addressNetwork(address)).toBe(network);
});
