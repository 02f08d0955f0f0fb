import type { Core } from "@millrace/core";
import type { Principal } from "@millrace/domain";

/** What every procedure works with, created for each request. */
export interface RequestContext {
  readonly core: Core;
  readonly requestId: string;
  /** Path of the HTTP request. */
  readonly instance: string;
  /** Says who sends the request, or throws; called at most once per request. */
  readonly authenticate: () => Promise<Principal>;
  /** Aborts when the caller has gone. */
  readonly signal: AbortSignal;
}
