/**
 * The control link: a broker connects to a gateway of the control plane, signs in with its slot's credential, and then
 * serves its admin HTTP on that connection. So nothing has to reach brokers from outside.
 */
import type { ClusterId } from "./id.ts";

/** A broker's place in its cluster. A broker that replaces another one takes its slot. */
export interface BrokerSlot {
  readonly clusterId: ClusterId;
  /** Kafka's node id. */
  readonly brokerId: number;
}

/** Protocol of the connection, in the header `Upgrade` of request and answer. */
export const LINK_PROTOCOL = "millrace-link/1";
export const LINK_PATH = "/v1/link";

/** Headers of the request for a link. The first two are also headers of requests and answers on it. */
export const LINK_HEADERS = {
  cluster: "millrace-cluster",
  broker: "millrace-broker",
  brokerStart: "millrace-broker-start",
  version: "millrace-version",
} as const;

/** Valid at a time per slot: the one in use and its successor, so that a rotation cuts no link. */
export const LINK_CREDENTIALS_PER_SLOT = 2;
const CREDENTIAL = /^mlk_[A-Za-z0-9_-]{43}$/;

/**
 * The text of a credential, of which the control plane stores only the SHA-256. `secret` is 32 random bytes in base64url
 * without padding.
 */
export function linkCredential(secret: string): string {
  const credential = `mlk_${secret}`;
  if (!CREDENTIAL.test(credential))
    throw new Error("a credential's secret is 32 bytes in base64url");
  return credential;
}

/** The credential of a header `Authorization: Bearer mlk_…`, as it is hashed; undefined where it has none. */
export function linkCredentialIn(authorization: string | undefined): string | undefined {
  const [scheme = "", credential = ""] = authorization?.split(" ", 2) ?? [];
  return scheme.toLowerCase() === "bearer" && CREDENTIAL.test(credential) ? credential : undefined;
}

/** `never`: no broker has been connected in this slot. */
export const BROKER_LINK_STATES = ["connected", "disconnected", "never"] as const;
export type BrokerLinkState = (typeof BROKER_LINK_STATES)[number];

/** A slot's link as the database knows it. */
export interface BrokerLink extends BrokerSlot {
  readonly state: Exclude<BrokerLinkState, "never">;
  /** When it was connected, or when the broker was last heard from before it was not any more. */
  readonly since: Date;
  readonly lastHeardAt: Date;
  readonly remoteAddress: string;
  readonly brokerVersion: string;
}

/** A gateway that the database has not heard from for this long has ended, and its links with it. */
export const GATEWAY_SILENT_MS_MAX = 15_000;

/** Marks answers of a gateway's own, with their code. It is removed from a broker's answers. */
export const GATEWAY_ERROR_HEADER = "millrace-gateway-error";

/** Errors of a gateway's own, and their HTTP status; anything else is the broker's answer. */
export const GATEWAY_ERRORS = {
  UNAUTHORIZED: 401,
  NOT_FOUND: 404,
  /** As many calls as the link may have are under way. */
  BROKER_BUSY: 429,
  /** The link broke after the request was sent: the broker may have carried it out. */
  BROKER_DISCONNECTED: 502,
  /**
   * Another broker than the one that the request is for has it, and may have carried it out. Not 421: `fetch` sends a request
   * that is answered so a second time.
   */
  WRONG_BROKER: 502,
  /** The request has not reached the broker. */
  BROKER_NOT_CONNECTED: 503,
  /** The request was sent, and not answered in time: the broker may have carried it out. */
  BROKER_TIMEOUT: 504,
} as const;
export type GatewayErrorCode = keyof typeof GATEWAY_ERRORS;
