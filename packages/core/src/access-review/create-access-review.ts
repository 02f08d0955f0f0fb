import {
  ACCESS_REVIEW_KEYS_MAX,
  type AccessReview,
  countAccess,
  DomainError,
  type Principal,
} from "@millrace/domain";
import type { Core } from "../core.ts";
import { changerBehind } from "../tenant/changer-behind.ts";
import { accessDigest } from "./access-digest.ts";

export interface CreateAccessReviewInput {
  /** Of the access that the caller looked at. */
  readonly digest: string;
}

/**
 * Records that the caller reviewed the access that has this digest; it and the counts go to the audit log, too. Throws
 * `access_changed` where the access is another one by now, `limit_exceeded` where a review cannot list it all.
 */
export async function createAccessReview(
  core: Core,
  principal: Principal,
  { digest }: CreateAccessReviewInput,
): Promise<AccessReview> {
  const { organizationId } = principal;
  const now = core.clock.now();
  const reviewedBy = await changerBehind(core, principal);
  return core.db.transaction(async (tx) => {
    await tx.organizations.lock(organizationId);
    const { access, isComplete } = await tx.accessReviews.access(organizationId, now);
    if (!isComplete) throw incomplete();
    if (accessDigest(access) !== digest) throw changed();
    const counts = countAccess(access, now);
    return tx.accessReviews.create(organizationId, reviewedBy, { counts, digest });
  });
}

function incomplete(): DomainError {
  return new DomainError(
    "limit_exceeded",
    `The organization has more than ${ACCESS_REVIEW_KEYS_MAX} API keys, so the review does not list all of them.`,
    { remedy: "Revoke keys that are no longer needed, then read the review again." },
  );
}

function changed(): DomainError {
  return new DomainError("access_changed", "The access has changed since you read the review.", {
    remedy: "Read it again, then record the review with its digest.",
  });
}
