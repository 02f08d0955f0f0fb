import { createHmac, timingSafeEqual } from "node:crypto";
import type { Cursor } from "@millrace/db";
import { DomainError, type OrganizationId } from "@millrace/domain";

/** 128 bits of an HMAC-SHA256: a token cannot be forged, and stays short. */
const MAC_BYTES = 16;

/** What a token belongs to; it is refused anywhere else. */
export interface PageScope {
  readonly organizationId: OrganizationId;
  /** Name of the list. */
  readonly list: string;
  /** The filter, whose change makes a position meaningless. */
  readonly filter?: Readonly<Record<string, string | undefined>>;
}

/**
 * Opaque page tokens: the position of the last item shown, signed together with the tenant, the
 * list and the filter. A token of one tenant therefore opens nothing of another.
 */
export class PageTokens {
  readonly #secret: string;

  constructor(secret: string) {
    this.#secret = secret;
  }

  seal(scope: PageScope, position: readonly string[]): string {
    const payload = Buffer.from(JSON.stringify(position));
    return Buffer.concat([this.#mac(scope, payload), payload]).toString("base64url");
  }

  /** Throws `invalid_page_token`. */
  open(scope: PageScope, token: string): string[] {
    const bytes = Buffer.from(token, "base64url");
    const payload = bytes.subarray(MAC_BYTES);
    const mac = bytes.subarray(0, MAC_BYTES);
    const genuine = mac.length === MAC_BYTES && timingSafeEqual(mac, this.#mac(scope, payload));
    if (!genuine) throw invalidToken();
    return JSON.parse(payload.toString()) as string[];
  }

  #mac(scope: PageScope, payload: Buffer): Buffer {
    const filter = Object.entries(scope.filter ?? {}).filter(([, value]) => value !== undefined);
    const bound = JSON.stringify([scope.organizationId, scope.list, filter.sort()]);
    const hmac = createHmac("sha256", this.#secret).update("page-token\0").update(bound);
    return hmac.update("\0").update(payload).digest().subarray(0, MAC_BYTES);
  }
}

/** The position in a list ordered by (created_at, id) that the token stands for. */
export function openCursor(
  tokens: PageTokens,
  scope: PageScope,
  token: string | undefined,
): Cursor | undefined {
  if (token === undefined) return undefined;
  const [createdAt = "", id = ""] = tokens.open(scope, token);
  return { createdAt: new Date(createdAt), id };
}

export function sealCursor(
  tokens: PageTokens,
  scope: PageScope,
  cursor: Cursor | undefined,
): string | undefined {
  if (cursor === undefined) return undefined;
  return tokens.seal(scope, [cursor.createdAt.toISOString(), cursor.id]);
}

function invalidToken(): DomainError {
  return new DomainError("invalid_page_token", "The page token does not belong to this list.", {
    remedy: "Send next_page_token unchanged with the same filter, or start from the first page.",
    fields: [{ pointer: "/page_token", code: "invalid", message: "does not belong to this list" }],
  });
}
