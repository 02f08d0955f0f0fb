/** The secret of an `otpauth:` address in groups of four, as people type it into an app. */
export function setupKey(uri: string): string {
  const secret = new URL(uri).searchParams.get("secret") ?? "";
  return secret.match(/.{1,4}/g)?.join(" ") ?? "";
}
