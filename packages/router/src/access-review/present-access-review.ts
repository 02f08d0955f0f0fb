import type { AccessReviewRecord, Access as AccessShape } from "@millrace/contract";
import { type Access, type AccessReview, findingsOf } from "@millrace/domain";
import { presentRoleRef } from "../role/present-role.ts";

/** With what of it somebody should look at, as of `at`. */
export function presentAccess(access: Access, at: Date): AccessShape {
  const { permissions } = access;
  return {
    ...{ kind: access.kind, id: access.id, name: access.name, role: access.role },
    custom_role: presentRoleRef(access.customRole),
    permissions: permissions ? [...permissions] : null,
    created_at: access.createdAt.toISOString(),
    last_used_at: access.lastUsedAt?.toISOString() ?? null,
    expires_at: access.expiresAt?.toISOString() ?? null,
    second_factor: access.hasSecondFactor ?? null,
    sign_in: [...access.signIn],
    domains: [...access.domains],
    disabled: access.isDisabled,
    findings: findingsOf(access, at),
  };
}

export function presentReview({ counts, ...review }: AccessReview): AccessReviewRecord {
  return {
    id: review.id,
    reviewed_at: review.reviewedAt.toISOString(),
    reviewed_by: { ...review.reviewedBy },
    digest: review.digest ?? null,
    complete: review.isComplete,
    counts: { total: counts.total, kinds: { ...counts.kinds }, findings: { ...counts.findings } },
  };
}
