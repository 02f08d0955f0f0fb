/**
 * Looking at an invitation and accepting it. Not part of REST v1: whoever has only the link has neither a
 * session nor a tenant, and a person who joins a further organization acts for none yet.
 */
import { assertOwnPage, type Identity } from "@millrace/auth";
import { acceptInvitation, openInvitation } from "@millrace/core";
import { DomainError, LABEL_MAX, PASSWORD_LENGTH_MAX, PASSWORD_LENGTH_MIN } from "@millrace/domain";
import { Hono } from "hono";
import { z } from "zod";
import { addressNetwork } from "./client-address.ts";
import { jsonBody } from "./json-body.ts";
import { problemResponse } from "./problem-response.ts";
import { type ApiEnv, type ApiParts, originOf } from "./request-context.ts";

/** Tries per address: a token cannot be guessed, but each try costs two queries. */
const TRIES_PER_MINUTE = 30;
const MINUTE_MS = 60_000;

const token = z.string().max(100);
const Open = z.strictObject({ token });
const Accept = z.strictObject({
  token,
  name: z.string().trim().min(1).max(LABEL_MAX).optional(),
  password: z.string().min(PASSWORD_LENGTH_MIN).max(PASSWORD_LENGTH_MAX).optional(),
});

export function invitationRoutes(
  parts: ApiParts,
  identity: Pick<Identity, "createUser" | "session">,
): Hono<ApiEnv> {
  const app = new Hono<ApiEnv>();
  const { db, clock } = parts.core;
  const tools = { db, clock, identity };
  app.onError((error, c) => problemResponse(c, parts.log, error));
  app.use(async (c, next) => {
    assertOwnPage(parts.authenticator, { method: c.req.method, headers: c.req.raw.headers });
    const tries = await db.rateLimits.count(
      `invitation|${addressNetwork(c.get("context").clientAddress)}`,
      MINUTE_MS,
      Date.now(),
    );
    if (tries > TRIES_PER_MINUTE) {
      throw new DomainError("rate_limited", "Too many attempts.", { retryAfterSeconds: 60 });
    }
    await next();
    c.header("Cache-Control", "no-store");
  });
  app.post("/open", async (c) => {
    const input = Open.parse(await jsonBody(c));
    const { invitation, organizationName, account } = await openInvitation(tools, input.token);
    const { email, role, expiresAt } = invitation;
    const organization = { name: organizationName };
    return c.json({
      organization,
      email,
      role,
      expires_at: expiresAt,
      has_account: account !== undefined,
    });
  });
  app.post("/accept", async (c) => {
    const { token: sent, name, password } = Accept.parse(await jsonBody(c));
    const session = await identity.session(c.req.raw.headers);
    const organizationId = await acceptInvitation(tools, {
      token: sent,
      // An organization's identity provider does not speak for people elsewhere.
      userId: session?.ssoOrganizationId === undefined ? session?.userId : undefined,
      newAccount: name !== undefined && password !== undefined ? { name, password } : undefined,
      ...originOf(c),
    });
    return c.json({ organization_id: organizationId });
  });
  return app;
}
