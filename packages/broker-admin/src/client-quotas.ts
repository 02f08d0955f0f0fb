/** Quotas of clients in Kafka's admin protocol (KIP-546). */
import {
  type ClientQuota,
  QUOTA_DEFAULT,
  QUOTA_LIMITS,
  type QuotaChanges,
  type QuotaEntity,
  type QuotaLimit,
} from "@millrace/domain";
import {
  type Admin,
  type AlterClientQuotasOptions,
  ClientQuotaEntityTypes,
  describeClientQuotasV0,
} from "@platformatic/kafka";
import { bootstrapConnection } from "./bootstrap-connection.ts";

const { USER, CLIENT_ID } = ClientQuotaEntityTypes;

type Operations = AlterClientQuotasOptions["entries"][number]["ops"];

/** Every quota of users and client ids; those of addresses are none of them. */
export async function describeQuotas(admin: Admin): Promise<ClientQuota[]> {
  // The library's own method wants a component, which leaves out the quotas without it.
  const connection = await bootstrapConnection(admin);
  const { entries } = await describeClientQuotasV0.api.async(connection, [], false);
  return (entries ?? []).flatMap(({ entity, values }) => {
    const names = new Map<string, string>(
      entity.map(({ entityType, entityName }) => [entityType, entityName ?? QUOTA_DEFAULT]),
    );
    const user = names.get(USER);
    const clientId = names.get(CLIENT_ID);
    if (names.size === 0 || names.has(ClientQuotaEntityTypes.IP)) return [];
    const limits = Object.fromEntries(
      values.filter(({ key }) => isLimit(key)).map(({ key, value }) => [key, value]),
    );
    return [{ user, clientId, limits }];
  });
}

export async function alterQuota(
  admin: Admin,
  { user, clientId }: QuotaEntity,
  changes: QuotaChanges,
): Promise<void> {
  const ops = QUOTA_LIMITS.flatMap((key): Operations => {
    const value = changes[key];
    if (value === undefined) return [];
    return value === null ? [{ key, remove: true }] : [{ key, value, remove: false }];
  });
  const entities = [
    ...(user === undefined ? [] : [{ entityType: USER, entityName: kafkaName(user) }]),
    ...(clientId === undefined ? [] : [{ entityType: CLIENT_ID, entityName: kafkaName(clientId) }]),
  ];
  await admin.alterClientQuotas({ entries: [{ entities, ops }] });
}

function kafkaName(name: string): string | null {
  return name === QUOTA_DEFAULT ? null : name;
}

function isLimit(key: string): key is QuotaLimit {
  return (QUOTA_LIMITS as readonly string[]).includes(key);
}
