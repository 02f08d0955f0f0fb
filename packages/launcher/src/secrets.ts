/** Secrets that must not be committed, found by their form. */

/** A secret in a text; its value stays out of logs. */
export interface FoundSecret {
  readonly kind: string;
  /** From 1. */
  readonly line: number;
}

const FORMS: readonly (readonly [kind: string, form: RegExp])[] = [
  // RFC 7468; with at least one line of base64, so that code that names the label is none.
  [
    "private key",
    /-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----(?:\r?\n|\\n)[^-]{0,200}?[A-Za-z0-9+/=]{32}/g,
  ],
  ["AWS access key", /\b(?:AKIA|ASIA)[A-Z2-7]{16}\b/g],
  [
    "AWS secret access key",
    /aws_?secret_?access_?key["']?\s*[:=]\s*["']?[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])/gi,
  ],
  // packages/auth: 32 random bytes behind a prefix.
  ["Millrace API key", /\bmrk_[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])/g],
  ["Millrace invitation", /\bmri_[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])/g],
  // packages/domain: broker-link.ts.
  ["credential of a broker", /\bmlk_[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])/g],
];

/** Everything in the text that has the form of a secret, in its order. */
export function findSecrets(text: string): FoundSecret[] {
  return FORMS.flatMap(([kind, form]) =>
    [...text.matchAll(form)].map(({ index }) => ({ kind, line: lineOf(text, index) })),
  ).sort((a, b) => a.line - b.line);
}

function lineOf(text: string, index: number): number {
  return text.slice(0, index).split("\n").length;
}
