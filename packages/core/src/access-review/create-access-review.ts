import { type AccessReview, countAccess, type Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { changerBehind } from "../tenant/changer-behind.ts";

/** Records that the caller reviewed the access that there is; the counts go to the audit log, too. */
export async function createAccessReview(core: Core, principal: Principal): Promise<AccessReview> {
  const { organizationId } = principal;
  const now = core.clock.now();
  const reviewedBy = await changerBehind(core, principal);
  return core.db.transaction(async (tx) => {
    const { access } = await tx.accessReviews.access(organizationId, now);
    return tx.accessReviews.create(organizationId, reviewedBy, countAccess(access, now));
  });
}
