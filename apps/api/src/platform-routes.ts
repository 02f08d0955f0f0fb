/**
 * What platform operators do: list organizations with the health of their clusters, and impersonate a member. Not part of
 * REST v1: a platform operator belongs to no tenant, and API keys do. Returns 404 for everyone else.
 */
import { assertOwnPage, assertRecentProof, type Identity } from "@millrace/auth";
import { beginImpersonation, endImpersonation, listPlatformOrganizations } from "@millrace/core";
import type { Database } from "@millrace/db";
import {
  DomainError,
  EMAIL_LENGTH_MAX,
  IMPERSONATION_REASON_LENGTH_MAX,
  IMPERSONATION_REASON_LENGTH_MIN,
  IMPERSONATIONS_PER_HOUR_MAX,
  type OrganizationId,
  type PersonSession,
  PLAIN_TEXT_PATTERN,
  type UserId,
} from "@millrace/domain";
import { type Context, Hono } from "hono";
import { z } from "zod";
import { jsonBody } from "./json-body.ts";
import { problemResponse } from "./problem-response.ts";
import { type ApiEnv, type ApiParts, originOf } from "./request-context.ts";

const HOUR_MS = 3_600_000;

const Begin = z.strictObject({
  organization_id: z
    .string()
    .max(40)
    .transform((id) => id as OrganizationId),
  /** The first owner by default. */
  member_email: z.email().max(EMAIL_LENGTH_MAX).toLowerCase().optional(),
  reason: z
    .string()
    .trim()
    .min(IMPERSONATION_REASON_LENGTH_MIN)
    .max(IMPERSONATION_REASON_LENGTH_MAX)
    .regex(PLAIN_TEXT_PATTERN, "must not contain control characters"),
  write: z.boolean().default(false),
});

type Sessions = Pick<Identity, "session">;

interface PlatformOptions {
  readonly impersonationMayWrite?: boolean;
}

export function platformRoutes(
  parts: ApiParts,
  identity: Sessions,
  { impersonationMayWrite: canWrite = false }: PlatformOptions,
): Hono<ApiEnv> {
  const app = new Hono<ApiEnv>();
  const { db, clock } = parts.core;
  app.onError((error, c) => problemResponse(c, parts.log, error));
  app.use(async (c, next) => {
    assertOwnPage(parts.authenticator, { method: c.req.method, headers: c.req.raw.headers });
    await next();
    c.header("Cache-Control", "no-store");
  });
  app.get("/organizations", async (c) => {
    const { id } = await operatorSession(db, identity, c);
    const after = (c.req.query("after") ?? "").slice(0, 40);
    const { items, next } = await listPlatformOrganizations(db, id, after);
    return c.json({
      items: items.map(({ createdAt, ...rest }) => ({ ...rest, created_at: createdAt })),
      next: next ?? null,
      may_write: canWrite,
    });
  });
  app.post("/impersonations", async (c) => {
    const session = await operatorSession(db, identity, c);
    assertRecentProof({ session }, clock.now());
    const { organization_id, member_email, reason, write } = Begin.parse(await jsonBody(c));
    await countBegun(db, session.userId, clock.now());
    const begun = await beginImpersonation(
      db,
      {
        ...{ sessionId: session.id, organizationId: organization_id, memberEmail: member_email },
        ...{ reason, mayWrite: write, ...originOf(c) },
      },
      canWrite,
    );
    return c.json({ id: begun.id, expires_at: begun.expiresAt }, 201);
  });
  app.post("/impersonations/end", async (c) => {
    const { id } = await operatorSession(db, identity, c);
    await endImpersonation(db, { sessionId: id, ...originOf(c) });
    return c.body(null, 204);
  });
  return app;
}

/** Throws `rate_limited`. */
async function countBegun({ rateLimits }: Database, operator: UserId, now: Date): Promise<void> {
  const begun = await rateLimits.count(`impersonations|${operator}`, HOUR_MS, now.getTime());
  if (begun <= IMPERSONATIONS_PER_HOUR_MAX) return;
  throw new DomainError(
    "rate_limited",
    `You can begin ${IMPERSONATIONS_PER_HOUR_MAX} impersonations per hour.`,
    { remedy: "Try again later.", retryAfterSeconds: HOUR_MS / 1_000 },
  );
}

/** Answers a sign-out, and ends the session's active impersonation if the sign-out has ended the session. */
export async function signOutAndEndImpersonation(
  db: Database,
  identity: Sessions,
  c: Context<ApiEnv>,
  signOut: () => Promise<Response> | undefined,
): Promise<Response | undefined> {
  const session = await identity.session(c.req.raw.headers);
  const active = session && (await db.platform.active(session.id));
  const response = await signOut();
  if (active && session && (await identity.session(c.req.raw.headers)) === undefined) {
    await endImpersonation(db, { sessionId: session.id, ...originOf(c) }, active);
  }
  return response;
}

/** Throws `unauthenticated`, `rate_limited`, and `route_not_found` for anybody who is no platform operator. */
async function operatorSession(
  db: Database,
  identity: Sessions,
  c: Context<ApiEnv>,
): Promise<PersonSession & { userId: UserId }> {
  const session = await identity.session(c.req.raw.headers);
  if (!session) {
    throw new DomainError("unauthenticated", "You are not signed in.", { remedy: "Sign in." });
  }
  c.get("charge")?.takeUser(session.userId);
  if (!(await db.platform.isOperator(session.id))) {
    throw new DomainError("route_not_found", `There is no ${c.req.method} ${c.req.path}.`);
  }
  const { id, userId, authenticatedAt } = session;
  return { id, userId, authenticatedAt, isSingleSignOn: false };
}
