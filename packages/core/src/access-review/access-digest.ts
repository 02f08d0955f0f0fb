import { createHash } from "node:crypto";
import type { Access } from "@millrace/domain";

/**
 * SHA-256, as 64 hex digits, of who and what can do what: equal for the same access in any order, and not changed by
 * its use.
 */
export function accessDigest(all: readonly Access[]): string {
  const reviewed = all
    .map(({ id, role, permissions, domains, isDisabled }) =>
      JSON.stringify([
        ...[id, role, permissions ? [...permissions].sort() : null],
        ...[[...domains].sort(), isDisabled],
      ]),
    )
    .sort();
  return createHash("sha256").update(reviewed.join("\n")).digest("hex");
}
