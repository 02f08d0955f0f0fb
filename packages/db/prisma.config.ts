import { fileURLToPath } from "node:url";
import { defineConfig } from "prisma/config";

// Prisma's own schema engine is a native binary that the CLI downloads from its vendor. Ours runs
// the same engine from npm; a real binary named in the environment still wins.
process.env.PRISMA_SCHEMA_ENGINE_BINARY ??= fileURLToPath(
  new URL("./tools/schema-engine/main.ts", import.meta.url),
);

export default defineConfig({
  schema: "prisma/schema.prisma",
  migrations: {
    path: fileURLToPath(new URL("../../migrations/control-plane", import.meta.url)),
  },
  datasource: { url: process.env.DATABASE_URL ?? "" },
});
