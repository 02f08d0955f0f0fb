import type { Transaction } from "@millrace/db";
import { DomainError, MEMBERS_PER_ORGANIZATION_MAX, type OrganizationId } from "@millrace/domain";

/** Throws `limit_exceeded` where one member more than these `expected` ones would be too many. */
export async function assertRoomForMember(
  tx: Transaction,
  organizationId: OrganizationId,
  expected: number,
): Promise<void> {
  const members = await tx.members.count(organizationId);
  if (members + expected < MEMBERS_PER_ORGANIZATION_MAX) return;
  throw new DomainError(
    "limit_exceeded",
    `An organization has at most ${MEMBERS_PER_ORGANIZATION_MAX} members, invited ones included.`,
    { remedy: "Remove members that no longer need access, or revoke invitations." },
  );
}
