/** Quotas of clients over a broker's admin HTTP: entities as Kafka has them (KIP-546), where no name is the default. */
import { type ClientQuota, QUOTA_DEFAULT, QUOTA_LIMITS, type QuotaEntity } from "@millrace/domain";
import { z } from "zod";

const USER = "user";
const CLIENT_ID = "client-id";

/** What a broker answers at `/v1/client-quotas`. */
export const ClientQuotasAnswer = z.object({
  quotas: z.array(
    z.object({
      entity: z.array(z.object({ type: z.string(), name: z.string().nullable() })),
      limits: z.record(z.string(), z.number()),
    }),
  ),
});

/** Every quota of users and client ids; those of addresses are none of them. */
export function clientQuotasOf({ quotas }: z.output<typeof ClientQuotasAnswer>): ClientQuota[] {
  return quotas.flatMap(({ entity, limits }) => {
    const names = new Map(entity.map(({ type, name }) => [type, name ?? QUOTA_DEFAULT]));
    if (entity.some(({ type }) => type !== USER && type !== CLIENT_ID)) return [];
    const known = QUOTA_LIMITS.flatMap((limit) => {
      const value = limits[limit];
      return value === undefined ? [] : [[limit, value] as const];
    });
    const of = { user: names.get(USER), clientId: names.get(CLIENT_ID) };
    return [{ ...of, limits: Object.fromEntries(known) }];
  });
}

export function entityParts({ user, clientId }: QuotaEntity) {
  return [
    ...(user === undefined ? [] : [{ type: USER, name: brokerName(user) }]),
    ...(clientId === undefined ? [] : [{ type: CLIENT_ID, name: brokerName(clientId) }]),
  ];
}

function brokerName(name: string): string | null {
  return name === QUOTA_DEFAULT ? null : name;
}
