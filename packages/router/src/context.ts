import type { CoreParts } from "@millrace/core";
import type { Permission, Principal } from "@millrace/domain";

/** What every procedure works with, created for each request. */
export interface RequestContext {
  readonly core: CoreParts;
  readonly requestId: string;
  /** Address of the client, as far as trusted proxies tell it. */
  readonly clientAddress: string;
  /** Path of the HTTP request. */
  readonly instance: string;
  /** Says who sends the request, or throws; called at most once per request. */
  readonly authenticate: () => Promise<Principal>;
  /** Authenticates the request again: its key or session may have been revoked since. */
  readonly authenticateAgain: () => Promise<Principal>;
  /** Aborts when the caller has gone, or, in a procedure, has lost access. */
  readonly signal: AbortSignal;
  /** Resolves when the response was written, or its connection has closed. */
  readonly answered: Promise<void>;
  /**
   * Takes the slot that a large body needs, once per request; it is given back when the request is
   * answered. Throws what `authenticate` throws, `forbidden` without `permission`, `rate_limited`.
   */
  readonly takeBodySlot: (permission: Permission) => Promise<void>;
  /** Logs a failure that the answer does not show. */
  readonly report: (error: unknown, message: string) => void;
  /** Closes the connection unless the response was written within `ms` from now. */
  readonly cutAfter: (ms: number) => void;
}
