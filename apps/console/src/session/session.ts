"use client";

/** What a try to sign in came to. */
export type SignIn = { ok: true; needsCode: boolean } | { ok: false; message: string };

/** Asks for a session; the browser keeps it as a cookie that no script can read. */
export async function signIn(email: string, password: string): Promise<SignIn> {
  const reply = await post("/api/auth/sign-in/email", { email, password });
  if (reply?.ok) {
    const answer = await reply.json().catch(() => undefined);
    return { ok: true, needsCode: answer?.twoFactorRedirect === true };
  }
  if (reply?.status === 429) {
    return { ok: false, message: "Too many attempts. Wait a minute, then try again." };
  }
  if (reply?.status === 401 || reply?.status === 400) {
    return { ok: false, message: "Wrong email or password." };
  }
  return { ok: false, message: "Cannot reach the API. Try again in a moment." };
}

/** The second step of a sign-in: a code from the app, or a recovery code, which is longer. */
export async function signInWithCode(code: string): Promise<SignIn> {
  const path = /^\d{6}$/.test(code) ? "verify-totp" : "verify-backup-code";
  const reply = await post(`/api/auth/two-factor/${path}`, { code });
  if (reply?.ok) return { ok: true, needsCode: false };
  if (reply === undefined) {
    return { ok: false, message: "Cannot reach the API. Try again in a moment." };
  }
  if (reply.status === 429) {
    return { ok: false, message: "Too many attempts. Wait a minute, then try again." };
  }
  return { ok: false, message: "Wrong code. After several wrong codes, sign in again." };
}

/**
 * Sends the browser to the organization's identity provider: to sign in, or to prove once more who is signed in. Answers with
 * what went wrong.
 */
export async function leaveForProvider(
  path: "start" | "confirm",
  body: { readonly name?: string; readonly return_to: string },
): Promise<string | undefined> {
  const reply = await post(`/api/sso/${path}`, body);
  const answer = await reply?.json().catch(() => undefined);
  if (reply?.ok && typeof answer?.location === "string") {
    window.location.assign(answer.location);
    return undefined;
  }
  if (reply?.status === 429) return "Too many attempts. Wait a minute, then try again.";
  return answer?.detail ?? "Cannot reach the API. Try again in a moment.";
}

/** Ends the session here and on the server. */
export async function signOut(): Promise<void> {
  await post("/api/auth/sign-out", {});
}

async function post(path: string, body: unknown): Promise<Response | undefined> {
  try {
    return await fetch(path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  } catch {
    return undefined;
  }
}
