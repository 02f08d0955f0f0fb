import type { Principal } from "@millrace/domain";
import { expect, test } from "vitest";
import { RequestSlots, readSlots } from "./request-slots.ts";

const MIB = 1024 ** 2;

function principal(organizationId: string, userId: string): Principal {
  return { organizationId, userId, role: "developer", apiKeyId: undefined } as unknown as Principal;
}

test("one key's streams leave room for the others of its organization", () => {
  const slots = new RequestSlots();
  const script = principal("org_a", "usr_script");
  for (let held = 0; held < 8; held += 1) slots.acquire("stream", script);
  expect(() => slots.acquire("stream", script)).toThrow("At most 8 record streams per user");
  slots.acquire("stream", principal("org_a", "usr_person"));
});

test("one organization's streams leave room for others", () => {
  const slots = new RequestSlots();
  for (let held = 0; held < 24; held += 1) {
    slots.acquire("stream", principal("org_a", `usr_${held}`));
  }
  expect(() => slots.acquire("stream", principal("org_a", "usr_new"))).toThrow("per organization");
  slots.acquire("stream", principal("org_b", "usr_new"));
  slots.acquire("read", principal("org_a", "usr_new"));
});

test("two tabs of a console and a script share a user's reads", () => {
  const slots = new RequestSlots();
  const one = principal("org_a", "usr_one");
  slots.acquire("read", one, readSlots({ max_bytes: 8 * MIB }));
  slots.acquire("read", one, readSlots({ max_bytes: 1, value_bytes_max: 8 * MIB }));
  for (let tab = 0; tab < 8; tab += 1) slots.acquire("read", one, readSlots({}));
  expect(() => slots.acquire("read", one)).toThrow("At most 24 MiB of record reads per user");
});

test("slots that are given back twice are free once", () => {
  const slots = new RequestSlots();
  const one = principal("org_a", "usr_one");
  const releases = Array.from({ length: 3 }, () => slots.acquire("read", one, 8));
  releases[0]?.();
  releases[0]?.();
  slots.acquire("read", one, 8);
  expect(() => slots.acquire("read", one)).toThrow("read");
});

test.each([
  ["read", 4, 8],
  ["produce", 8, 1],
] as const)("two organizations leave %s slots for others", (use, callers, each) => {
  const slots = new RequestSlots();
  const fill = (organization: string) => {
    for (let caller = 0; caller < callers; caller += 1) {
      slots.acquire(use, principal(organization, `usr_${caller}`), each);
    }
  };
  for (const organization of ["org_a", "org_b"]) {
    fill(organization);
    const refused = () => slots.acquire(use, principal(organization, "usr_new"));
    expect(refused).toThrow("per organization");
  }
  fill("org_c");
});
