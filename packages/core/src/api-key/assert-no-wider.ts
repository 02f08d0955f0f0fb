import { isRangeIn } from "@millrace/auth";
import { DomainError, type Permission, type Principal, type Role } from "@millrace/domain";
import { assertCovers } from "../member/assert-covers.ts";

/** What a key may do, from where, until when. */
export interface KeyPower {
  readonly role: Role;
  readonly permissions?: readonly Permission[] | undefined;
  readonly allowedAddresses: readonly string[];
  readonly expiresAt?: Date | undefined;
}

/**
 * Throws `forbidden` where the key could do more than the caller: by role or permissions, and where the caller
 * is a key itself, from more addresses or for longer.
 */
export function assertNoWider(principal: Principal, key: KeyPower, action: string): void {
  assertCovers(principal, key.role, action, key.permissions);
  const own = principal.keyLimits;
  if (!own) return;
  const { allowedAddresses, expiresAt } = own;
  const isFromElsewhere =
    allowedAddresses.length > 0 &&
    (key.allowedAddresses.length === 0 ||
      !key.allowedAddresses.every((inner) =>
        allowedAddresses.some((outer) => isRangeIn(inner, outer)),
      ));
  if (isFromElsewhere) {
    throw tooWide(
      "The calling key works from fewer addresses.",
      "Set allowed_addresses within its own.",
    );
  }
  if (expiresAt && (!key.expiresAt || key.expiresAt > expiresAt)) {
    const until = expiresAt.toISOString();
    throw tooWide(`The calling key expires at ${until}.`, "Set expires_at no later than that.");
  }
}

/**
 * Throws `forbidden` where the caller is a key that is limited by address or expiry: what it lets people do would be
 * limited by neither.
 */
export function assertUnlimited({ keyLimits }: Principal, action: string): void {
  if (!keyLimits?.expiresAt && !keyLimits?.allowedAddresses.length) return;
  throw new DomainError(
    "forbidden",
    `An API key that is limited by address or expiry cannot ${action}.`,
    { remedy: "Use a key without these limits, or sign in." },
  );
}

function tooWide(message: string, remedy: string): DomainError {
  return new DomainError("forbidden", message, { remedy });
}
