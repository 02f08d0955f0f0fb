import { QUOTA_LIMITS, type QuotaUsage } from "@millrace/domain";
import { z } from "zod";

/** What a broker answers at `/v1/quotas`. */
export const QuotaUsageAnswer = z.object({
  usage: z.array(
    z.object({
      quota: z.string(),
      user: z.string().nullable(),
      client_id: z.string().nullable(),
      limit: z.number(),
      rate: z.number(),
      throttle_ms: z.number(),
    }),
  ),
});

/** In the broker's order; kinds of quotas that are not ours are left out. */
export function quotaUsageOf({ usage }: z.output<typeof QuotaUsageAnswer>): QuotaUsage[] {
  return usage.flatMap(({ quota, user, client_id, limit, rate, throttle_ms: throttleMs }) => {
    const kind = QUOTA_LIMITS.find((known) => known === quota);
    if (kind === undefined) return [];
    const entity = { user: user ?? undefined, clientId: client_id ?? undefined };
    return [{ ...entity, quota: kind, limit, rate, throttleMs }];
  });
}
