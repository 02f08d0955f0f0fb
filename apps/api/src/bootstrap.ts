/**
 * `node bootstrap.ts`: makes sure that there is a first owner, tenant, environment and API key,
 * and prints credentials that work as one line of JSON: `{email, password, apiKey}`. What an
 * earlier run gave, and the launcher wrote to `credentials.json`, is kept where it still works.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createIdentity } from "@millrace/auth";
import { bootstrapTenant } from "@millrace/core";
import { openDatabase } from "@millrace/db";
import { systemClock } from "@millrace/domain";
import { z } from "zod";
import { readEnvironment } from "./env.ts";

const Known = z.object({ password: z.string().optional(), apiKey: z.string().optional() });

const env = readEnvironment();
const db = openDatabase({ url: env.DATABASE_URL });
try {
  const identity = createIdentity({
    db,
    secret: env.MILLRACE_AUTH_SECRET,
    apiUrl: env.MILLRACE_API_URL,
    trustedOrigins: [env.MILLRACE_CONSOLE_URL],
  });
  const answer = await bootstrapTenant(
    { db, clock: systemClock, identity },
    {
      email: "operator@millrace.local",
      userName: "Operator",
      organization: { name: "First tenant", slug: "first-tenant" },
      environment: "default",
      known: await knownCredentials(env.MILLRACE_HOME),
    },
  );
  process.stdout.write(`${JSON.stringify(answer)}\n`);
} finally {
  await db.close();
}

async function knownCredentials(home: string): Promise<{ password?: string; apiKey?: string }> {
  try {
    const { password, apiKey } = Known.parse(
      JSON.parse(await readFile(join(home, "credentials.json"), "utf8")),
    );
    return { ...(password && { password }), ...(apiKey && { apiKey }) };
  } catch {
    // Absent on the first start, or broken by hand: new credentials are created.
    return {};
  }
}
