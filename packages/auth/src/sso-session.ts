import { createAuthEndpoint } from "better-auth/api";
import { setSessionCookie } from "better-auth/cookies";
import { z } from "zod";

/** Opens sessions of people whom an organization's identity provider vouches for. Has no path: only this process calls it. */
export function ssoSessions() {
  return {
    id: "millrace-sso",
    endpoints: {
      openSsoSession: createAuthEndpoint.serverOnly(
        {
          method: "POST",
          body: z.object({
            userId: z.string(),
            organizationId: z.string(),
            authenticatedAt: z.date(),
          }),
          requireHeaders: true,
        },
        async (ctx) => {
          const { userId, organizationId, authenticatedAt } = ctx.body;
          const { internalAdapter } = ctx.context;
          const user = await internalAdapter.findUserById(userId);
          if (!user) throw ctx.error("NOT_FOUND");
          const session = await internalAdapter.createSession(userId, false, {
            ssoOrganizationId: organizationId,
            authenticatedAt,
          });
          await setSessionCookie(ctx, { session, user });
          return ctx.json({ status: true });
        },
      ),
    },
  };
}
