/** Text in which the order of an object's fields, and fields that are undefined, make no difference. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, part) =>
    part !== null && typeof part === "object" && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}
