/**
 * `node platform-operator.ts add|remove|list [EMAIL]`: who runs the installation. With the address of the owner of the
 * tables in DATABASE_URL: API and worker have no right to make somebody a platform operator. `add` creates the account,
 * or takes that of somebody who belongs to no organization, and prints one line of JSON: `{email, password}`, without
 * `password` for an account that exists.
 */
import { randomBytes } from "node:crypto";
import { createIdentity } from "@millrace/auth";
import { openDatabase, PlatformOperatorRefused, PlatformOperators } from "@millrace/db";
import { z } from "zod";
import { readEnvironment } from "./env.ts";

/** 144 bits, 24 characters. */
const PASSWORD_BYTES = 18;

const [command = "", argument] = process.argv.slice(2);
const env = readEnvironment();
const operators = await PlatformOperators.open(env.DATABASE_URL);
try {
  if (command === "list") {
    for (const email of await operators.list()) console.log(email);
  } else if (command === "add") {
    console.log(JSON.stringify(await add(emailOf(argument))));
  } else if (command === "remove") {
    await operators.remove(emailOf(argument));
  } else {
    throw new PlatformOperatorRefused("usage: platform-operator add|remove EMAIL, or list");
  }
} catch (error) {
  if (!(error instanceof PlatformOperatorRefused)) throw error;
  console.error(error.message);
  process.exitCode = 2;
} finally {
  await operators.close();
}

async function add(email: string): Promise<{ email: string; password?: string }> {
  if (await operators.add(email)) return { email };
  const password = randomBytes(PASSWORD_BYTES).toString("base64url");
  const db = openDatabase({ url: env.DATABASE_URL });
  try {
    const identity = createIdentity({
      db,
      secret: env.MILLRACE_AUTH_SECRET,
      apiUrl: env.MILLRACE_API_URL,
      trustedOrigins: [env.MILLRACE_CONSOLE_URL],
    });
    await identity.createUser({ email, name: "Platform operator", password });
  } finally {
    await db.close();
  }
  await operators.add(email);
  return { email, password };
}

function emailOf(text: string | undefined): string {
  const email = z.email().max(254).toLowerCase().safeParse(text);
  if (email.success) return email.data;
  throw new PlatformOperatorRefused("name the account by its email address");
}
