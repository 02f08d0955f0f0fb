import type { Access } from "@millrace/contract";

const COLUMNS: readonly (readonly [name: string, (access: Access) => string])[] = [
  ["kind", ({ kind }) => kind],
  ["id", ({ id }) => id],
  ["name", ({ name }) => name],
  ["role", ({ role }) => role],
  ["custom_role", ({ custom_role }) => custom_role?.name ?? ""],
  ["permissions", ({ permissions }) => permissions?.join(" ") ?? ""],
  ["created_at", ({ created_at }) => created_at],
  ["last_used_at", ({ last_used_at }) => last_used_at ?? ""],
  ["expires_at", ({ expires_at }) => expires_at ?? ""],
  ["second_factor", ({ second_factor }) => (second_factor === null ? "" : String(second_factor))],
  ["sign_in", ({ sign_in }) => sign_in.join(" ")],
  ["domains", ({ domains }) => domains.join(" ")],
  ["disabled", ({ disabled }) => String(disabled)],
  ["findings", ({ findings }) => findings.join(" ")],
];

/** CSV (RFC 4180) with a header line. Each line says whether the items are complete: a file has no other place for it. */
export function accessCsv(items: readonly Access[], isComplete: boolean): string {
  const lines = [
    [...COLUMNS.map(([name]) => name), "complete"],
    ...items.map((access) => [
      ...COLUMNS.map(([, textOf]) => cell(textOf(access))),
      String(isComplete),
    ]),
  ];
  return lines.map((line) => `${line.join(",")}\r\n`).join("");
}

/**
 * Spreadsheets run cells that begin with one of these characters as formulas, and names are what somebody chose
 * (OWASP, CSV injection). An apostrophe makes them text.
 */
const FORMULA = /^[=+\-@\t\r]/;

function cell(value: string): string {
  const text = FORMULA.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
