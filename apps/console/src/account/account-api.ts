"use client";

/** What the API's sign-in endpoints answered; they are not part of REST v1. */
export type Reply<T = unknown> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly status: number | undefined; readonly message: string };

const UNREACHABLE = "Cannot reach the API. Try again in a moment.";

async function ask<T>(path: string, init?: RequestInit): Promise<Reply<T>> {
  try {
    const response = await fetch(`/api/auth/${path}`, init);
    const text = await response.text();
    const answer = text === "" ? undefined : JSON.parse(text);
    if (response.ok) return { ok: true, value: answer as T };
    const message = response.status === 429 ? "Too many attempts. Wait a minute." : answer?.message;
    return { ok: false, status: response.status, message: message ?? UNREACHABLE };
  } catch {
    return { ok: false, status: undefined, message: UNREACHABLE };
  }
}

export function post<T>(path: string, body: object): Promise<Reply<T>> {
  const headers = { "content-type": "application/json" };
  return ask(path, { method: "POST", headers, body: JSON.stringify(body) });
}

export interface SecondFactorSetup {
  /** `otpauth:` address for an authenticator app. */
  readonly totpURI: string;
  readonly backupCodes: readonly string[];
}

/** Whether the signed-in user has a second factor; undefined where that cannot be told. */
export async function hasSecondFactor(): Promise<boolean | undefined> {
  const reply = await ask<{ user?: { twoFactorEnabled?: boolean } } | null>("get-session");
  return reply.ok ? reply.value?.user?.twoFactorEnabled === true : undefined;
}

/** Proves once more who is signed in; the code only where there is a second factor. */
export function confirmIdentity(password: string, code: string): Promise<Reply> {
  return post("confirm", { password, ...(code !== "" && { code }) });
}
