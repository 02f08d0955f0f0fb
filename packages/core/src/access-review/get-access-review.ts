import type { Access, AccessReview, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { accessDigest } from "./access-digest.ts";

export interface AccessOverview {
  readonly access: readonly Access[];
  /** False where the organization has more API keys than a review has. */
  readonly isComplete: boolean;
  /** What a record of this review names it by. */
  readonly digest: string;
  readonly at: Date;
  readonly lastReview: AccessReview | undefined;
}

/** Every way into the organization, and when that was reviewed last. */
export async function getAccessReview(
  { db, clock }: Core,
  { organizationId }: Principal,
): Promise<AccessOverview> {
  const at = clock.now();
  const overview = await db.accessReviews.access(organizationId, at);
  const digest = accessDigest(overview.access);
  const lastReview = await db.accessReviews.newest(organizationId);
  return { ...overview, digest, at, lastReview };
}
