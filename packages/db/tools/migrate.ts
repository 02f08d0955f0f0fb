/**
 * `node tools/migrate.ts`: brings the database named by DATABASE_URL, the owner's address, to this version.
 * The roles of API, worker and gateway get the passwords of MILLRACE_API_DATABASE_URL, MILLRACE_WORKER_DATABASE_URL and
 * MILLRACE_GATEWAY_DATABASE_URL; one that is absent is left as it is.
 */
import { migrate } from "../src/migrate.ts";

const url = process.env.DATABASE_URL;
if (!url) {
  console.error("DATABASE_URL is not set: name the database to migrate, postgres://…");
  process.exit(2);
}
try {
  await migrate(url, {
    api: process.env.MILLRACE_API_DATABASE_URL,
    worker: process.env.MILLRACE_WORKER_DATABASE_URL,
    gateway: process.env.MILLRACE_GATEWAY_DATABASE_URL,
  });
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
}
