import { expect, test } from "vitest";
import { isPublicAddress, OutgoingRequestRefused, OutgoingRequests } from "./outgoing-requests.ts";

test.each([
  "0.0.0.0",
  "10.1.2.3",
  "100.64.0.1",
  "127.0.0.1",
  "127.9.9.9",
  "169.254.169.254",
  "172.16.0.1",
  "172.31.255.255",
  "192.0.2.1",
  "192.168.1.1",
  "198.18.0.1",
  "224.0.0.1",
  "255.255.255.255",
  "::",
  "::1",
  "::ffff:127.0.0.1",
  "::ffff:8.8.8.8",
  "64:ff9b::7f00:1",
  "fc00::1",
  "fd00:ec2::254",
  "fe80::1",
  "fe80::1%eth0",
  "fec0::1",
  "ff02::1",
  "2001:db8::1",
  "2002:7f00:1::1",
  "localhost",
  "",
])("%s is not public", (address) => {
  expect(isPublicAddress(address)).toBe(false);
});

test.each(["1.1.1.1", "8.8.8.8", "172.32.0.1", "192.0.1.1", "2606:4700::1111", "2a00:1450::1"])(
  "%s is public",
  (address) => {
    expect(isPublicAddress(address)).toBe(true);
  },
);

const NEVER = () => Promise.reject(new Error("nothing was to be resolved"));

test.each([
  ["http://example.com/", "https"],
  ["file:///etc/passwd", "https"],
  ["gopher://example.com/", "https"],
  ["https://user:password@example.com/", "credentials"],
  ["not a url", "not a URL"],
  [`https://example.com/${"a".repeat(3_000)}`, "not a URL"],
  ["https://127.0.0.1/", "not on the public Internet"],
  // Other spellings of the same address.
  ["https://2130706433/", "not on the public Internet"],
  ["https://0x7f.1/", "not on the public Internet"],
  ["https://[::1]/", "not on the public Internet"],
  ["https://[::ffff:10.0.0.1]/", "not on the public Internet"],
  ["https://169.254.169.254/latest/meta-data", "not on the public Internet"],
])("%s is refused before anything is sent", async (address, reason) => {
  const sent = new OutgoingRequests({ resolve: NEVER }).send(address, {});
  await expect(sent).rejects.toThrow(OutgoingRequestRefused);
  await expect(sent).rejects.toThrow(reason);
});

test("a name is refused if any of its addresses is private", async () => {
  const resolve = async () => [
    { address: "1.1.1.1", family: 4 },
    { address: "10.0.0.1", family: 4 },
  ];
  const sent = new OutgoingRequests({ resolve }).send("https://rebound.example/", {});
  await expect(sent).rejects.toThrow(
    "rebound.example has an address that is not on the public Internet.",
  );
  const none = new OutgoingRequests({ resolve: async () => [] }).send("https://no.example/", {});
  await expect(none).rejects.toThrow("has no address");
});
