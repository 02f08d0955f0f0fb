/** Databases of clusters, on a real PostgreSQL, made by a role that is no superuser. */
import { runSql, withEmptyServer } from "@millrace/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PostgresMetadataDatabases } from "../src/index.ts";

const PASSWORD = "0123456789abcdef";

let server: Awaited<ReturnType<typeof withEmptyServer>>;
let databases: PostgresMetadataDatabases;

beforeAll(async () => {
  server = await withEmptyServer();
  await runSql(
    server.url,
    "CREATE ROLE millrace_metadata LOGIN CREATEDB CREATEROLE PASSWORD 'maker'",
  );
  const url = new URL(server.url);
  url.username = "millrace_metadata";
  url.password = "maker";
  databases = new PostgresMetadataDatabases(url.toString());
});

afterAll(() => server.stop());

function at(url: string, database: string): string {
  const other = new URL(url);
  other.pathname = `/${database}`;
  return other.toString();
}

test("each cluster gets a database of its own, which no other cluster's role can reach", async () => {
  await databases.ensure("clu_01A", PASSWORD);
  await databases.ensure("clu_01B", PASSWORD);
  const [first, second] = ["clu_01A", "clu_01B"].map((id) => databases.urlOf(id, PASSWORD));
  await runSql(first ?? "", "CREATE TABLE kept (id int); INSERT INTO kept VALUES (1)");
  await expect(runSql(at(second ?? "", "metadata_clu_01a"), "SELECT 1")).rejects.toThrow(
    "permission denied for database",
  );
  await expect(runSql(first ?? "", "CREATE ROLE another")).rejects.toThrow("permission denied");
});

test("making them again keeps what is in them, and sets the password", async () => {
  await databases.ensure("clu_01C", PASSWORD);
  await runSql(databases.urlOf("clu_01C", PASSWORD), "CREATE TABLE kept (id int)");
  await Promise.all([1, 2, 3].map(() => databases.ensure("clu_01C", PASSWORD)));
  await databases.ensure("clu_01C", "another");
  await runSql(databases.urlOf("clu_01C", "another"), "INSERT INTO kept VALUES (1)");
});

test("dropping removes database and role, also twice", async () => {
  await databases.ensure("clu_01D", PASSWORD);
  await databases.drop("clu_01D");
  await databases.drop("clu_01D");
  await expect(runSql(databases.urlOf("clu_01D", PASSWORD), "SELECT 1")).rejects.toThrow();
  await databases.ensure("clu_01D", PASSWORD);
  await runSql(databases.urlOf("clu_01D", PASSWORD), "SELECT 1");
});

test("a server that does not answer is an error that can be tried again", async () => {
  const nowhere = new PostgresMetadataDatabases("postgres://a:b@127.0.0.1:1/postgres");
  await expect(nowhere.ensure("clu_01E", PASSWORD)).rejects.toMatchObject({
    code: "apply_failed",
    retryable: true,
  });
});
