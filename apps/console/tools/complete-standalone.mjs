/** Next leaves static files out of its standalone folder, for a CDN; here the server serves them. */
import { cpSync, existsSync } from "node:fs";
import { join } from "node:path";

const app = join(import.meta.dirname, "..");
const standalone = join(app, ".next/standalone/apps/console");
cpSync(join(app, ".next/static"), join(standalone, ".next/static"), { recursive: true });
if (existsSync(join(app, "public"))) {
  cpSync(join(app, "public"), join(standalone, "public"), { recursive: true });
}
