import { type IdPrefix, isId, PLAIN_TEXT_PATTERN } from "@millrace/domain";
import { z } from "zod";

/** An id of one kind, for example `clu_01J…`. */
export function idField<P extends IdPrefix>(prefix: P) {
  return z
    .string()
    .max(40)
    .refine((value): value is `${P}_${string}` => isId(prefix, value), {
      error: `must be an ID like ${prefix}_01JEXAMPLE…`,
    })
    .meta({ description: `ID with the prefix ${prefix}_` });
}

/** An id in a path. A malformed id does not exist, so it is answered with 404 and not with 400. */
export function pathId<P extends IdPrefix>(prefix: P) {
  return z
    .string()
    .max(100)
    .transform((value) => value as `${P}_${string}`)
    .meta({ description: `ID with the prefix ${prefix}_` });
}

/** Text that people write, on one line. */
export const plainText = z
  .string()
  .regex(PLAIN_TEXT_PATTERN, "must not contain control characters");

/** PostgreSQL's text cannot have one, so that nothing there matches. */
export const withoutNul = [
  (value: string) => !value.includes("\0"),
  { error: "must not have a NUL character" },
] as const;

/** RFC 3339, UTC. */
export const timestamp = z.iso.datetime().meta({ description: "RFC 3339, UTC" });

/** A time of a query, which people also have in milliseconds. */
export const instant = z.union([z.iso.datetime({ offset: true }), z.string().regex(/^\d{1,15}$/)], {
  error: "must be RFC 3339 like 2026-01-31T12:00:00Z, or milliseconds since the epoch",
});

/** A 64-bit whole number as a decimal string: JSON numbers lose digits past 2^53. */
export const int64 = z
  .string()
  .regex(/^-?\d{1,19}$/)
  .meta({ description: "64-bit integer as a decimal string" });

/** Longest wait of one long poll; proxies commonly cut silent connections at 60 s. */
export const WAIT_SECONDS_MAX = 55;

/** `30s`: how long the server may hold the request. */
export const waitField = z
  .string()
  .regex(/^\d{1,9}s$/, { error: "must be whole seconds like 30s", abort: true })
  .refine((value) => Number.parseInt(value, 10) <= WAIT_SECONDS_MAX, {
    error: `must be ${WAIT_SECONDS_MAX}s or less`,
  })
  .meta({
    description: `Long poll: whole seconds like 30s, at most ${WAIT_SECONDS_MAX}s`,
    override: { pattern: String.raw`^\d{1,2}s$` },
  });

/** A query switch: `true` or `false` over REST, a boolean over tRPC. */
export const querySwitch = z.union(
  [z.boolean(), z.enum(["true", "false"]).transform((text) => text === "true")],
  { error: "must be true or false" },
);

export const validateOnly = querySwitch.optional().meta({
  description: "Dry run: returns a preview and changes nothing",
  override: { type: "boolean", anyOf: undefined },
});

export const ifMatch = z.string().max(100).optional().meta({
  description: "The ETag you read; the call fails with 412 if the resource has changed since",
});

export const requireApproval = z
  .boolean()
  .optional()
  .meta({ description: "The operation waits for approval before it applies its plan" });
