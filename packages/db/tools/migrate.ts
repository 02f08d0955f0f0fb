/** `node tools/migrate.ts`: brings the database named by DATABASE_URL to this version. */
import { migrate } from "../src/migrate.ts";

const url = process.env.DATABASE_URL;
if (!url) {
  console.error("DATABASE_URL is not set: name the database to migrate, postgres://…");
  process.exit(2);
}
try {
  await migrate(url);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
}
