"use client";

import type { Role } from "@millrace/domain";

/** What a link invites to. */
export interface OpenedInvitation {
  readonly organization: { readonly name: string };
  readonly email: string;
  readonly role: Role;
  /** Whether the address has an account: it signs in, others create one. */
  readonly has_account: boolean;
}

export type Answer<T> = { ok: true; value: T } | { ok: false; code: string; message: string };

export function openInvitation(token: string): Promise<Answer<OpenedInvitation>> {
  return post("open", { token });
}

/** Of somebody signed in, or with the account to create. */
export function acceptInvitation(
  token: string,
  account?: { readonly name: string; readonly password: string },
): Promise<Answer<{ organization_id: string }>> {
  return post("accept", { token, ...account });
}

async function post<T>(step: string, body: object): Promise<Answer<T>> {
  try {
    const reply = await fetch(`/api/invitations/${step}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const answer = await reply.json();
    if (reply.ok) return { ok: true, value: answer as T };
    const { code = "internal", detail = "", remedy = "" } = answer;
    return { ok: false, code, message: `${detail} ${remedy}`.trim() };
  } catch {
    return {
      ok: false,
      code: "unreachable",
      message: "Cannot reach the API. Try again in a moment.",
    };
  }
}
