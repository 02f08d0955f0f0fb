/** Quotas as people read and type them. Pure, so that it is tested alone. */
import type { ClientQuota } from "@millrace/contract";
import { QUOTA_DEFAULT, type QuotaLimit } from "@millrace/domain";
import { byteRate } from "../format/quantity.ts";

const MIB = 1024 ** 2;

/** `user alice, client ID app`. */
export function quotaWords({ user, client_id }: Pick<ClientQuota, "user" | "client_id">): string {
  const part = (what: string, name: string | null) => {
    if (name === null) return [];
    return [name === QUOTA_DEFAULT ? `every other ${what}` : `${what} ${name}`];
  };
  return [...part("user", user), ...part("client ID", client_id)].join(", ");
}

export const QUOTA_TITLES: Readonly<Record<QuotaLimit, string>> = {
  producer_byte_rate: "Produce",
  consumer_byte_rate: "Consume",
  request_percentage: "Request time",
  controller_mutation_rate: "Partition changes",
};

/** An amount in the unit of the quota: `1.5 MiB/s`, `12 %`, `3/s`. */
export function limitText(quota: QuotaLimit, amount: number): string {
  if (quota === "request_percentage") return `${rounded(amount)} %`;
  return quota === "controller_mutation_rate" ? `${rounded(amount)}/s` : byteRate(amount);
}

function rounded(amount: number): string {
  return amount.toLocaleString("en", { maximumFractionDigits: 2 });
}

/** What was typed as MiB/s, in whole bytes per second; null where nothing was. */
export function rateOf(mebibytes: number | string): number | null {
  return mebibytes === "" ? null : Math.round(Number(mebibytes) * MIB);
}

export function mebibytesOf(rate: number | null): number | "" {
  return rate === null ? "" : rate / MIB;
}
