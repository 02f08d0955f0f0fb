import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import pg from "pg";
import { expect, test } from "vitest";
import { migrate } from "../src/migrate.ts";
import { databaseFixture } from "./fixture.ts";

const fixture = databaseFixture();
const PRISMA = createRequire(import.meta.url).resolve("prisma/build/index.js");
const PACKAGE = fileURLToPath(new URL("..", import.meta.url));

function prisma(url: string, ...args: string[]) {
  return promisify(execFile)(process.execPath, [PRISMA, ...args], {
    cwd: PACKAGE,
    env: { ...process.env, DATABASE_URL: url, CHECKPOINT_DISABLE: "1" },
  });
}

async function rows(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

test("the migrations make exactly what the schema says", async () => {
  const args = ["--from-config-datasource", "--to-schema", "prisma/schema.prisma", "--exit-code"];
  const { stdout } = await prisma(fixture.url, "migrate", "diff", ...args);
  expect(stdout).toContain("No difference detected");
});

test("the partial indexes that Prisma does not see are there", async () => {
  const found = await rows(
    fixture.url,
    "SELECT indexname FROM pg_indexes WHERE indexdef LIKE '% WHERE %' AND schemaname = 'public'",
  );
  expect(found.map((row) => row.indexname).sort()).toEqual([
    "benchmark_topic_left",
    "cluster_name_taken",
    "cluster_phase_idx",
    "environment_name_taken",
    "impersonation_of_session",
    "operation_cluster_busy",
    "operation_look",
    "service_account_name_taken",
  ]);
});

test("two at once migrate an empty database, and a third finds nothing to do", async () => {
  const url = new URL(fixture.url);
  const name = `fresh_${randomBytes(6).toString("hex")}`;
  await rows(fixture.url, `CREATE DATABASE ${name}`);
  url.pathname = `/${name}`;
  try {
    await Promise.all([migrate(url.toString()), migrate(url.toString())]);
    await migrate(url.toString());
    const applied = await rows(
      url.toString(),
      "SELECT migration_name, count(*)::int AS times FROM _prisma_migrations GROUP BY 1",
    );
    expect(applied.length).toBeGreaterThan(0);
    expect(applied.every((row) => row.times === 1)).toBe(true);
  } finally {
    await rows(fixture.url, `DROP DATABASE ${name} WITH (FORCE)`);
  }
});

test("a database that does not exist is made", async () => {
  const url = new URL(fixture.url);
  const name = `made_${randomBytes(6).toString("hex")}`;
  url.pathname = `/${name}`;
  try {
    await migrate(url.toString());
    expect(await rows(url.toString(), "SELECT count(*)::int AS n FROM cluster")).toEqual([
      { n: 0 },
    ]);
  } finally {
    await rows(fixture.url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
  }
});

test("a server that does not answer is named", async () => {
  await expect(migrate("postgres://postgres:x@127.0.0.1:1/none")).rejects.toThrow(/127\.0\.0\.1:1/);
});
