/**
 * `node platform-operator.ts add|reset|remove|list [EMAIL]`: who runs the installation. With the address of the owner of
 * the tables in DATABASE_URL: API and worker have no right to make somebody a platform operator. `add` creates the
 * account, and `reset` gives it another password and ends its sessions and second factor; both print one line of JSON:
 * `{email, password}`.
 */
import { createIdentity } from "@millrace/auth";
import {
  addPlatformOperator,
  type PlatformOperatorTools,
  resetPlatformOperator,
} from "@millrace/core";
import { openDatabase, PlatformOperatorRefused, PlatformOperators } from "@millrace/db";
import { EMAIL_LENGTH_MAX } from "@millrace/domain";
import { z } from "zod";
import { readEnvironment } from "./env.ts";

const CHANGES = { add: addPlatformOperator, reset: resetPlatformOperator };

const [command = "", argument] = process.argv.slice(2);
const env = readEnvironment();
try {
  const operators = await PlatformOperators.open(env.DATABASE_URL);
  await run(operators).finally(() => operators.close());
} catch (error) {
  if (!(error instanceof PlatformOperatorRefused)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}

async function run(operators: PlatformOperators): Promise<void> {
  if (command === "list") {
    const emails = await operators.list();
    for (const email of emails) console.log(email);
    // Not among the addresses that programs read.
    if (emails.length === 0) console.error("There are no platform operators.");
  } else if (command === "add" || command === "reset") {
    await change(operators, CHANGES[command]);
  } else if (command === "remove") {
    const email = emailOf(argument);
    await operators.remove(email);
    console.log(`${email} is no longer a platform operator.`);
  } else {
    throw new PlatformOperatorRefused("usage: platform-operator add|reset|remove EMAIL, or list");
  }
}

async function change(
  operators: PlatformOperators,
  apply: (tools: PlatformOperatorTools, email: string) => Promise<string>,
): Promise<void> {
  const email = emailOf(argument);
  const db = openDatabase({ url: env.DATABASE_URL });
  try {
    const identity = createIdentity({
      db,
      secret: env.MILLRACE_AUTH_SECRET,
      apiUrl: env.MILLRACE_API_URL,
      trustedOrigins: [env.MILLRACE_CONSOLE_URL],
    });
    const password = await apply({ operators, identity }, email);
    console.log(JSON.stringify({ email, password }));
  } finally {
    await db.close();
  }
}

function emailOf(text: string | undefined): string {
  const email = z.email().max(EMAIL_LENGTH_MAX).toLowerCase().safeParse(text);
  if (email.success) return email.data;
  throw new PlatformOperatorRefused("EMAIL must be the email address of the account");
}
