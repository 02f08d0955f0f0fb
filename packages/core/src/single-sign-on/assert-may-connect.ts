import type { Principal } from "@millrace/domain";
import { assertUnlimited } from "../api-key/assert-no-wider.ts";
import { assertCovers } from "../member/assert-covers.ts";

/**
 * Whoever chooses the identity provider can sign in as any member, owners included. Throws `forbidden` for an API
 * key that can do less than an owner.
 */
export function assertMayConnect(principal: Principal): void {
  assertCovers(principal, "owner", "set up single sign-on");
  assertUnlimited(principal, "set up single sign-on");
}
