/** What `npm start` needs and the build makes: with MILLRACE_SKIP_BUILD=1 it may not be there. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { root, Unusable } from "./settings.ts";

interface BuiltPart {
  readonly name: string;
  readonly file: string;
}

export function databaseClient(clone = root): BuiltPart {
  return { name: "the database client", file: join(clone, "packages/db/src/generated/client.ts") };
}

/** The programs that serve; `MILLRACE_BROKER_BIN` names another broker. */
export function servedPrograms(env: NodeJS.ProcessEnv, clone = root): BuiltPart[] {
  return [
    {
      name: "the console",
      file: join(clone, "apps/console/.next/standalone/apps/console/server.js"),
    },
    {
      name: "the broker",
      file: env.MILLRACE_BROKER_BIN ?? join(clone, "dataplane/target/release/millrace"),
    },
  ];
}

/**
 * Throws where one of `needed` was not built, naming all that is missing of `all`.
 *
 * @throws Unusable
 */
export function assertBuilt(needed: readonly BuiltPart[], all = needed): void {
  const isMissing = ({ file }: BuiltPart) => !existsSync(file);
  if (!needed.some(isMissing)) return;
  const lines = all.filter(isMissing).map(({ name, file }) => `  ${name}: ${file}`);
  throw new Unusable(
    `MILLRACE_SKIP_BUILD=1 is set, but not everything is built. Missing:\n${lines.join("\n")}`,
    "run npm start once without MILLRACE_SKIP_BUILD",
  );
}
