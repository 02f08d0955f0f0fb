"use client";

/** What a try to sign in came to. */
export type SignIn = { ok: true } | { ok: false; message: string };

/** Asks for a session; the browser keeps it as a cookie that no script can read. */
export async function signIn(email: string, password: string): Promise<SignIn> {
  const reply = await post("/api/auth/sign-in/email", { email, password });
  if (reply?.ok) return { ok: true };
  if (reply?.status === 429) {
    return { ok: false, message: "Too many attempts. Wait a minute, then try again." };
  }
  if (reply?.status === 401 || reply?.status === 400) {
    return { ok: false, message: "Wrong email or password." };
  }
  return { ok: false, message: "Cannot reach the API. Try again in a moment." };
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
