/**
 * `npm run platform-operator -- add|reset|remove|list [EMAIL]`: who runs the installation. Without DATABASE_URL, that of a
 * running `npm start`; elsewhere set DATABASE_URL to the owner's address, as for migrations, and MILLRACE_AUTH_SECRET.
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { runningDatabase } from "./postgres.ts";
import { readSettings, root, sessionSecret } from "./settings.ts";

const COMMANDS = ["add", "reset", "remove", "list"];
if (!COMMANDS.includes(process.argv[2] ?? "")) {
  console.error("usage: npm run platform-operator -- add|reset|remove EMAIL, or list");
  process.exit(2);
}
const ownEnv = process.env.DATABASE_URL ? {} : quickStart();
const { status } = spawnSync(
  process.execPath,
  [join(root, "apps/api/src/platform-operator.ts"), ...process.argv.slice(2)],
  { stdio: "inherit", env: { ...process.env, ...ownEnv } },
);
process.exit(status ?? 1);

function quickStart() {
  const { home } = readSettings(process.env);
  const url = runningDatabase(join(home, "postgres"), "millrace");
  if (url === undefined) {
    console.error(
      `Nothing runs in ${home}: run npm start first. Set MILLRACE_HOME if it runs with another state folder, ` +
        "or DATABASE_URL.",
    );
    process.exit(1);
  }
  return { DATABASE_URL: url, MILLRACE_AUTH_SECRET: sessionSecret(home), MILLRACE_HOME: home };
}
