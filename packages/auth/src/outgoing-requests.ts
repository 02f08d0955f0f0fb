/**
 * Requests to addresses that a tenant chose, such as those of its identity provider. The control plane stands in a
 * private network, so such an address must not lead into it (OWASP: server-side request forgery): https only, no
 * private, loopback, link-local or otherwise special address, no redirects, bounded in time and size. A name is resolved
 * once, and the connection goes to exactly the addresses that were checked, so that a second answer of the DNS
 * changes nothing. Proxies of the environment are not used.
 */
import { type LookupAddress, lookup } from "node:dns";
import type { IncomingMessage } from "node:http";
import { request } from "node:https";
import { BlockList, isIP, isIPv6, type LookupFunction } from "node:net";
import { isAddressIn } from "./address-range.ts";

/** From the resolution of the name to the last byte. */
const REQUEST_MS_MAX = 5_000;
/** Metadata and key sets have a few KiB. */
const RESPONSE_BYTES_MAX = 64 * 1024;
/** Errors within errors that are looked through. */
const CAUSES_MAX = 8;
const URL_LENGTH_MAX = 2_048;

/** Special-purpose address blocks that are not global (IANA registries, RFC 6890). */
const SPECIAL_BLOCKS: readonly [network: string, prefix: number][] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
];
/** Only global unicast, 2000::/3, is public in IPv6; these parts of it are not, or hide an IPv4 address. */
const SPECIAL_BLOCKS_V6: readonly [network: string, prefix: number][] = [
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
];

const special = new BlockList();
for (const [network, prefix] of SPECIAL_BLOCKS) special.addSubnet(network, prefix, "ipv4");
for (const [network, prefix] of SPECIAL_BLOCKS_V6) special.addSubnet(network, prefix, "ipv6");
const globalUnicast = new BlockList();
globalUnicast.addSubnet("2000::", 3, "ipv6");

/** Whether an address is on the public Internet. */
export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 0) return false;
  if (!isIPv6(address)) return !special.check(address, "ipv4");
  return globalUnicast.check(address, "ipv6") && !special.check(address, "ipv6");
}

/** An address that is not asked, or an answer that is not read. The message may be shown to the tenant. */
export class OutgoingRequestRefused extends Error {
  override readonly name = "OutgoingRequestRefused";
}

/** The refusal that is behind an error of a library, which wraps it in errors of its own. */
export function refusedRequestIn(error: unknown): OutgoingRequestRefused | undefined {
  let cause = error;
  for (let depth = 0; cause instanceof Error && depth < CAUSES_MAX; depth += 1) {
    if (cause instanceof OutgoingRequestRefused) return cause;
    cause = cause.cause;
  }
  return undefined;
}

export interface OutgoingRequestOptions {
  /** Addresses and CIDR blocks that are asked although they are not public: an installation's own providers. */
  readonly allowedAddresses?: readonly string[];
  /** Certificates to trust instead of the system's, in PEM. */
  readonly ca?: string;
  /** Another bound of the whole request than usual, for tests. */
  readonly timeoutMs?: number;
  /** Another resolver than the system's, for tests. */
  readonly resolve?: (hostname: string) => Promise<LookupAddress[]>;
}

export interface OutgoingRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
}

export class OutgoingRequests {
  readonly #allowed: readonly string[];
  readonly #ca: string | undefined;
  readonly #timeoutMs: number;
  readonly #resolve: (hostname: string) => Promise<LookupAddress[]>;

  constructor(options: OutgoingRequestOptions = {}) {
    this.#allowed = options.allowedAddresses ?? [];
    this.#ca = options.ca;
    this.#timeoutMs = options.timeoutMs ?? REQUEST_MS_MAX;
    this.#resolve = options.resolve ?? systemResolve;
  }

  /**
   * Throws `OutgoingRequestRefused` for an address or an answer that is out of bounds, and Node's errors where
   * nothing answers.
   */
  async send(
    address: string,
    { method = "GET", headers, body }: OutgoingRequest,
  ): Promise<Response> {
    const url = parsedUrl(address);
    const deadline = AbortSignal.timeout(this.#timeoutMs);
    const addresses = await raced(this.#addressesOf(url), deadline);
    return await new Promise((resolve, reject) => {
      const sent = request(
        url,
        {
          method,
          headers: { ...headers, "accept-encoding": "identity" },
          agent: false,
          signal: deadline,
          lookup: lookupOf(addresses),
          ...(this.#ca !== undefined && { ca: this.#ca }),
        },
        (incoming) =>
          void readResponse(incoming).then(resolve, (error) =>
            reject(deadline.aborted ? tooSlow(url, this.#timeoutMs) : error),
          ),
      );
      sent.on("error", (error) => reject(deadline.aborted ? tooSlow(url, this.#timeoutMs) : error));
      sent.end(body);
    });
  }

  /** Those of a name that may be asked; of all that it has, none may be out of bounds. */
  async #addressesOf({ hostname }: URL): Promise<LookupAddress[]> {
    const literal = hostname.replace(/^\[|\]$/g, "");
    const found =
      isIP(literal) === 0
        ? await this.#resolve(hostname)
        : [{ address: literal, family: isIP(literal) }];
    if (found.length === 0) throw new OutgoingRequestRefused(`${hostname} has no address.`);
    for (const { address } of found) {
      if (isPublicAddress(address) || isAddressIn(address, this.#allowed)) continue;
      // Without the address: owners of organizations must not learn what internal names resolve to.
      throw new OutgoingRequestRefused(
        `${hostname} has an address that is not on the public Internet.`,
      );
    }
    return found;
  }
}

function parsedUrl(address: string): URL {
  const url = address.length <= URL_LENGTH_MAX ? URL.parse(address) : null;
  if (url === null) throw new OutgoingRequestRefused("The address is not a URL.");
  if (url.protocol !== "https:") {
    throw new OutgoingRequestRefused(`${url.host} must be reached by https.`);
  }
  if (url.username !== "" || url.password !== "") {
    throw new OutgoingRequestRefused("The address must not contain credentials.");
  }
  return url;
}

/** Answers Node's connection with the addresses that were checked, and with no others. */
function lookupOf(addresses: readonly LookupAddress[]): LookupFunction {
  return (_hostname, options, callback) => {
    const [first] = addresses;
    if (options.all) callback(null, [...addresses]);
    else callback(null, first?.address ?? "", first?.family);
  };
}

async function readResponse(incoming: IncomingMessage): Promise<Response> {
  const status = incoming.statusCode ?? 0;
  if (status >= 300 && status < 400) {
    incoming.destroy();
    throw new OutgoingRequestRefused(
      "The answer is a redirect, which is not followed. Use the address that it leads to.",
    );
  }
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > RESPONSE_BYTES_MAX) {
      incoming.destroy();
      throw new OutgoingRequestRefused(`The answer has more than ${RESPONSE_BYTES_MAX} bytes.`);
    }
    chunks.push(chunk);
  }
  const headers = new Headers();
  for (const [name, value] of Object.entries(incoming.headers)) {
    if (typeof value === "string") headers.set(name, value);
  }
  const isEmpty = status === 204 || status === 205;
  return new Response(isEmpty ? null : Buffer.concat(chunks), { status, headers });
}

async function raced<T>(work: Promise<T>, deadline: AbortSignal): Promise<T> {
  const aborted = new Promise<never>((_, reject) => {
    deadline.addEventListener("abort", () =>
      reject(new OutgoingRequestRefused("The name was not resolved in time.")),
    );
  });
  return await Promise.race([work, aborted]);
}

function tooSlow({ host }: URL, timeoutMs: number): OutgoingRequestRefused {
  return new OutgoingRequestRefused(`${host} did not answer within ${timeoutMs} ms.`);
}

function systemResolve(hostname: string): Promise<LookupAddress[]> {
  return new Promise((resolve, reject) => {
    lookup(hostname, { all: true, verbatim: true }, (error, addresses) => {
      if (error) reject(error);
      else resolve(addresses);
    });
  });
}
