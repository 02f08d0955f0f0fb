import type { IncomingMessage } from "node:http";
import { isIP, isIPv6 } from "node:net";
import { CLIENT_IP_HEADER, isAddressIn, isAddressRange } from "@millrace/auth";

/** Who may say for whom it asks: the console on this machine, until an installation names others. */
export const TRUSTED_PROXIES_DEFAULT = "127.0.0.0/8,::1";
/** Hops that are read of `X-Forwarded-For`; a client can write any number. */
const HOPS_MAX = 10;

/** Addresses whose `X-Forwarded-For` is believed. */
export class TrustedProxies {
  readonly #networks: readonly string[];

  /** `networks`: addresses and CIDR blocks, separated by commas. Throws on anything else. */
  constructor(networks: string = TRUSTED_PROXIES_DEFAULT) {
    this.#networks = networks
      .split(",")
      .map((network) => network.trim())
      .filter((network) => network !== "");
    for (const network of this.#networks) {
      if (isAddressRange(network)) continue;
      throw new Error(`${network} is neither an address nor a CIDR block`);
    }
  }

  has(address: string): boolean {
    return isAddressIn(address, this.#networks);
  }
}

/**
 * The request with the address of its client in a header of ours, for limits by address. What the
 * client itself put there is dropped.
 */
export function withClientAddress(request: Request, address: string): Request {
  const headers = new Headers(request.headers);
  headers.set(CLIENT_IP_HEADER, address);
  return new Request(request, { headers });
}

/**
 * The other end of the connection; where that is a trusted proxy, the last hop of `X-Forwarded-For` that
 * is none. What stands before that hop is what the client claims.
 */
export function clientAddress(
  headers: Headers,
  incoming: IncomingMessage | undefined,
  proxies: TrustedProxies,
): string {
  const hops = (headers.get("x-forwarded-for") ?? "").split(",").slice(-HOPS_MAX);
  let address = plain(incoming?.socket.remoteAddress ?? "127.0.0.1");
  while (proxies.has(address)) {
    const hop = plain(hops.pop()?.trim() ?? "");
    if (isIP(hop) === 0) break;
    address = hop;
  }
  return address;
}

/** What limits count by: an IPv6 client has a /64 to itself and could use each address of it once. */
export function addressNetwork(address: string): string {
  if (!isIPv6(address)) return address;
  const { hostname } = new URL(`http://[${address.split("%")[0]}]`);
  const [head = "", tail = ""] = hostname.slice(1, -1).split("::");
  const front = head === "" ? [] : head.split(":");
  const back = tail === "" ? [] : tail.split(":");
  const zeros = hostname.includes("::") ? Math.max(0, 8 - front.length - back.length) : 0;
  const groups = [...front, ...Array.from({ length: zeros }, () => "0"), ...back];
  return `${groups.slice(0, 4).join(":")}::/64`;
}

/** A dual-stack socket shows IPv4 clients as mapped addresses. */
function plain(address: string): string {
  return address.toLowerCase().startsWith("::ffff:") && address.includes(".")
    ? address.slice(7)
    : address;
}
