import type { OrganizationId } from "@millrace/domain";
import type { Client } from "./client.ts";

/** Whose key it is: keys of two principals never meet, nor those of two tenants. */
export interface IdempotencyScope {
  readonly organizationId: OrganizationId;
  readonly principal: string;
  readonly key: string;
}

export interface StoredResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export type Begun =
  /** The caller is first: run the request, then `complete` or `abandon`. */
  | { readonly kind: "begun" }
  | { readonly kind: "running" }
  /** The key was used for another request. */
  | { readonly kind: "mismatch" }
  | { readonly kind: "replay"; readonly response: StoredResponse };

export interface IdempotentRequest extends IdempotencyScope {
  readonly route: string;
  /** HMAC-SHA-256 of the request's body. */
  readonly requestHash: Uint8Array<ArrayBuffer>;
  /** How long a process may take before it counts as dead and the request may run again. */
  readonly lockMs: number;
  readonly keepMs: number;
}

interface Row {
  route: string;
  request_hash: Uint8Array;
  response_status: number | null;
  response_headers: Record<string, string> | null;
  response_body: string | null;
}

export class IdempotencyRepository {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /**
   * Enters the key, or tells what became of the request that did. Two at once: exactly one begins.
   * An expired row, and one whose process died, is taken over in the same statement.
   */
  async begin(request: IdempotentRequest): Promise<Begun> {
    const { organizationId, principal, key, route, requestHash, lockMs, keepMs } = request;
    const taken = await this.#client.$executeRaw`
      INSERT INTO idempotency_key AS k
        (organization_id, principal, key, route, request_hash, locked_until, expires_at)
      VALUES (${organizationId}, ${principal}, ${key}, ${route}, ${requestHash},
        now() + ${lockMs} * interval '1 millisecond', now() + ${keepMs} * interval '1 millisecond')
      ON CONFLICT (organization_id, principal, key) DO UPDATE
      SET route = excluded.route, request_hash = excluded.request_hash,
          response_status = NULL, response_headers = NULL, response_body = NULL,
          locked_until = excluded.locked_until, expires_at = excluded.expires_at,
          created_at = now()
      WHERE k.expires_at < now()
        OR (k.response_status IS NULL AND k.locked_until < now()
            AND k.route = excluded.route AND k.request_hash = excluded.request_hash)`;
    if (taken === 1) return { kind: "begun" };
    const [row] = await this.#client.$queryRaw<Row[]>`
      SELECT route, request_hash, response_status, response_headers, response_body
      FROM idempotency_key
      WHERE organization_id = ${organizationId} AND principal = ${principal} AND key = ${key}`;
    // Abandoned in between: as good as running, the caller tries again.
    if (!row) return { kind: "running" };
    const same = row.route === route && Buffer.compare(row.request_hash, requestHash) === 0;
    if (!same) return { kind: "mismatch" };
    if (row.response_status === null) return { kind: "running" };
    return {
      kind: "replay",
      response: {
        status: row.response_status,
        headers: row.response_headers ?? {},
        body: row.response_body ?? "",
      },
    };
  }

  /** Keeps the answer for replays. */
  async complete(scope: IdempotencyScope, response: StoredResponse): Promise<void> {
    await this.#client.idempotencyKey.update({
      where: { organizationId_principal_key: idOf(scope) },
      data: {
        responseStatus: response.status,
        responseHeaders: { ...response.headers },
        responseBody: response.body,
      },
    });
  }

  /** Forgets a request that failed in a way that a retry may repair. */
  async abandon(scope: IdempotencyScope): Promise<void> {
    await this.#client.idempotencyKey.deleteMany({
      where: { ...idOf(scope), responseStatus: null },
    });
  }

  /** Removes expired keys. */
  async deleteExpired(): Promise<number> {
    return this.#client.$executeRaw`DELETE FROM idempotency_key WHERE expires_at < now()`;
  }
}

function idOf({ organizationId, principal, key }: IdempotencyScope) {
  return { organizationId, principal, key };
}
