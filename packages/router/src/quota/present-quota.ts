import type { ClientQuota as ClientQuotaShape } from "@millrace/contract";
import type { ClientQuota } from "@millrace/domain";

export function presentQuota({ user, clientId, limits }: ClientQuota): ClientQuotaShape {
  return {
    user: user ?? null,
    client_id: clientId ?? null,
    producer_byte_rate: limits.producer_byte_rate ?? null,
    consumer_byte_rate: limits.consumer_byte_rate ?? null,
    request_percentage: limits.request_percentage ?? null,
    controller_mutation_rate: limits.controller_mutation_rate ?? null,
  };
}
