"use client";

import { PROOF_NEEDED, proveIdentity } from "../session/proof.ts";

/** What the API's sign-in endpoints answered; they are not part of REST v1. */
export type Reply<T = unknown> =
  | { readonly ok: true; readonly value: T }
  | {
      readonly ok: false;
      readonly status: number | undefined;
      readonly code: string | undefined;
      readonly message: string;
    };

const UNREACHABLE = "Cannot reach the API. Try again in a moment.";

async function ask<T>(path: string, init?: RequestInit): Promise<Reply<T>> {
  try {
    const response = await fetch(`/api/auth/${path}`, init);
    const text = await response.text();
    const answer = text === "" ? undefined : JSON.parse(text);
    if (response.ok) return { ok: true, value: answer as T };
    const { status } = response;
    return { ok: false, status, code: answer?.code, message: answer?.message ?? UNREACHABLE };
  } catch {
    return { ok: false, status: undefined, code: undefined, message: UNREACHABLE };
  }
}

/** Asks once more after the user has confirmed their identity, where the API wants that. */
export async function post<T>(path: string, body: object): Promise<Reply<T>> {
  const headers = { "content-type": "application/json" };
  const send = () => ask<T>(path, { method: "POST", headers, body: JSON.stringify(body) });
  const reply = await send();
  if (reply.ok || reply.code !== PROOF_NEEDED) return reply;
  return (await proveIdentity()) ? send() : reply;
}

export interface SecondFactorSetup {
  /** `otpauth:` address for an authenticator app. */
  readonly totpURI: string;
  readonly backupCodes: readonly string[];
}

interface OwnSession {
  readonly user?: { readonly twoFactorEnabled?: boolean };
  readonly session?: { readonly ssoOrganizationId?: string | null };
}

/** Whether the signed-in user has a second factor; undefined where that cannot be told. */
export async function hasSecondFactor(): Promise<boolean | undefined> {
  const reply = await ask<OwnSession | null>("get-session");
  return reply.ok ? reply.value?.user?.twoFactorEnabled === true : undefined;
}

/** Whether the user signed in at an identity provider, which then asks for passwords and codes. */
export async function usesSingleSignOn(): Promise<boolean> {
  const reply = await ask<OwnSession | null>("get-session");
  return reply.ok && typeof reply.value?.session?.ssoOrganizationId === "string";
}

/** Proves once more who is signed in; the code only where there is a second factor. */
export function confirmIdentity(password: string, code: string): Promise<Reply> {
  return post("confirm", { password, ...(code !== "" && { code }) });
}
