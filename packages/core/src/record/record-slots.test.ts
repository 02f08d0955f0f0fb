import type { Principal } from "@millrace/domain";
import { expect, test } from "vitest";
import { RecordSlots } from "./record-slots.ts";

function principal(organizationId: string, userId: string): Principal {
  return { organizationId, userId, role: "member", apiKeyId: undefined } as unknown as Principal;
}

test("one key's streams leave room for the others of its organization", () => {
  const slots = new RecordSlots();
  const script = principal("org_a", "usr_script");
  for (let held = 0; held < 8; held += 1) slots.acquire("stream", script);
  expect(() => slots.acquire("stream", script)).toThrow("At most 8 record streams per user");
  slots.acquire("stream", principal("org_a", "usr_person"));
});

test("one organization's streams leave room for others", () => {
  const slots = new RecordSlots();
  for (let held = 0; held < 24; held += 1) {
    slots.acquire("stream", principal("org_a", `usr_${held}`));
  }
  expect(() => slots.acquire("stream", principal("org_a", "usr_new"))).toThrow("per organization");
  slots.acquire("stream", principal("org_b", "usr_new"));
  slots.acquire("read", principal("org_a", "usr_new"));
});

test("a slot that is given back twice is free once", () => {
  const slots = new RecordSlots();
  const one = principal("org_a", "usr_one");
  const releases = Array.from({ length: 3 }, () => slots.acquire("read", one));
  releases[0]?.();
  releases[0]?.();
  slots.acquire("read", one);
  expect(() => slots.acquire("read", one)).toThrow("read");
});

test.each(["read", "produce"] as const)("two organizations leave %s slots for others", (use) => {
  const slots = new RecordSlots();
  for (const organization of ["org_a", "org_b"]) {
    for (let taken = 0; taken < 4; taken += 1) {
      slots.acquire(use, principal(organization, `usr_${taken}`));
    }
    expect(() => slots.acquire(use, principal(organization, "usr_new"))).toThrow("organization");
  }
  for (let taken = 0; taken < 4; taken += 1) slots.acquire(use, principal("org_c", `usr_${taken}`));
});
