import { AUDIT_EXPORT_EVENTS_MAX } from "@millrace/domain";
import { expect, test } from "vitest";
import { AuditSigner } from "./audit-signature.ts";

const signer = new AuditSigner("a secret of 32 characters or more");
const exported = { organization_id: "org_1", query: {}, exported_at: "2026-11-23T12:00:00.000Z" };

async function* events(count: number) {
  for (let seq = count; seq > 0; seq -= 1) yield { seq };
}

/** The last two lines, each parsed. */
async function endOf(count: number, isCut = false) {
  const last: string[] = [];
  for await (const line of signer.lines(events(count), exported, () => isCut)) {
    last.push(line);
    if (last.length > 2) last.shift();
  }
  return last.map((line) => JSON.parse(line));
}

test("an export that ends at its maximum says that it may lack older events", async () => {
  const [below] = await endOf(AUDIT_EXPORT_EVENTS_MAX - 1);
  expect(below.export).toMatchObject({ complete: true, events: AUDIT_EXPORT_EVENTS_MAX - 1 });
  const [full] = await endOf(AUDIT_EXPORT_EVENTS_MAX);
  expect(full.export).toMatchObject({ complete: false, events: AUDIT_EXPORT_EVENTS_MAX });
});

test("an export that was cut off has no signature", async () => {
  expect(await endOf(3, true)).toEqual([{ seq: 2 }, { seq: 1 }]);
});

test("an empty export is signed too", async () => {
  const [line, signature] = await endOf(0);
  expect(line.export).toMatchObject({ ...exported, events: 0, complete: true });
  expect(signature.signature.algorithm).toBe("Ed25519");
});
