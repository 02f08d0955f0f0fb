import { newId, systemClock } from "@millrace/domain";
import { expect, test, vi } from "vitest";
import { verifyAuditChain, verifyAuditChains } from "../src/index.ts";
import { coreFixture } from "./fixture.ts";

const fixture = coreFixture();

async function append(count: number): Promise<void> {
  const { organizationId } = fixture.principal;
  for (let index = 0; index < count; index += 1) {
    await fixture.db.api.tenant(organizationId).audit.append({
      ...{ organizationId, authMethod: "api_key", clientAddress: "::1", requestId: newId("req") },
      actor: { kind: "api_key", id: "key_a", name: "robot" },
      ...{ method: "cluster.create", targetId: undefined, result: "success", errorCode: undefined },
      ...{ request: undefined, before: undefined, after: undefined },
    });
  }
}

test("each chain is verified once a day, and one that lost its end is reported", async () => {
  await append(3);
  const error = vi.fn();
  const log = { info: () => {}, warn: () => {}, error };
  const worker = fixture.db.worker;
  const { organizationId } = fixture.principal;
  await verifyAuditChains({ db: worker, clock: systemClock, log });
  expect(await fixture.db.audit.lastCheck(organizationId)).toMatchObject({ seq: 3n });
  await append(1);
  await verifyAuditChains({ db: worker, clock: systemClock, log });
  expect(await fixture.db.audit.lastCheck(organizationId)).toMatchObject({ seq: 3n });
  expect(error).not.toHaveBeenCalled();

  // A repository here is an object of functions: what was seen of the chain is there no more.
  const lost = { audit: { ...fixture.db.audit, has: async () => false } };
  expect(await verifyAuditChain(lost as never, organizationId)).toMatchObject({
    seq: 4n,
    brokenSeq: 3n,
  });

  const tomorrow = { now: () => new Date(Date.now() + 25 * 3_600_000) };
  const tampered = {
    fleet: worker.fleet,
    tenant: (id: typeof organizationId) => {
      const tenant = worker.tenant(id);
      return { ...tenant, audit: { ...tenant.audit, has: async () => false } as never };
    },
  };
  await verifyAuditChains({ db: tampered, clock: tomorrow, log });
  expect(error).toHaveBeenCalledWith(
    expect.objectContaining({ organization: organizationId, seq: "3" }),
    expect.stringContaining("tampered"),
  );
});
