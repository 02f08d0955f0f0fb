#!/usr/bin/env node
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
// A stand-in for Prisma's native `schema-engine` binary: same JSON-RPC on stdio, run by
// @prisma/schema-engine-wasm over the `pg` driver. Used through PRISMA_SCHEMA_ENGINE_BINARY.
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { PrismaPg } from "@prisma/adapter-pg";
import { bindMigrationAwareSqlAdapterFactory, ColumnTypeEnum } from "@prisma/driver-adapter-utils";

const require = createRequire(import.meta.url);
const argv = process.argv.slice(2);
const opt = (name) => argv.flatMap((a, i) => (a === name ? [argv[i + 1]] : []));
const datasource = JSON.parse(opt("--datasource")[0] ?? "{}");
const log = (
  level,
  message,
  fields = {}, // same JSON lines on stderr as the native engine
) =>
  process.stderr.write(
    JSON.stringify({
      timestamp: new Date().toISOString(),
      level,
      fields: { message, ...fields },
      target: "schema_engine::logger",
    }) + "\n",
  );

const withDb = (url, db) => {
  const u = new URL(url);
  u.pathname = "/" + db;
  return u.toString();
};
const dbName = (url) => decodeURIComponent(new URL(url).pathname.slice(1)) || "postgres";

const opened = [];
async function open(url) {
  const u = new URL(url);
  const schema = u.searchParams.get("schema") ?? "public";
  for (const k of ["schema", "connection_limit", "pool_timeout", "connect_timeout", "pgbouncer"])
    u.searchParams.delete(k);
  // max: 1 - advisory lock, search_path and migration must share one session
  const a = await new PrismaPg(
    {
      connectionString: u.toString(),
      max: 1,
      connectionTimeoutMillis: 10_000,
      ...(schema !== "public" && { options: `-c search_path="${schema}"` }),
    },
    { schema },
  ).connect();
  // adapter-pg's executeScript splits on every ';' (breaks $$ bodies); the simple protocol takes a whole script
  const pool = a.underlyingDriver(),
    query = pool.query.bind(pool);
  a.executeScript = async (script) => {
    try {
      await query(script);
    } catch (e) {
      a.onError(e);
    }
  };
  // adapter-pg has no mapping for pg_catalog's "char" (18) and name[] (1003), which introspection selects
  const alias = { 18: [25, ColumnTypeEnum.Character], 1003: [1009, ColumnTypeEnum.TextArray] };
  pool.query = async (...args) => {
    const r = await query(...args);
    if (Array.isArray(r?.fields))
      r.fields.forEach((f) => {
        const m = alias[f.dataTypeID];
        if (m) {
          f.dataTypeID = m[0];
          f.prismaType = m[1];
        }
      });
    last = r;
    return r;
  };
  let last;
  const queryRaw = a.queryRaw.bind(a);
  a.queryRaw = async (q) => {
    const r = await queryRaw(q);
    last?.fields?.forEach((f, i) => {
      if (f.prismaType !== undefined) r.columnTypes[i] = f.prismaType;
    });
    return r;
  };
  const dispose = a.dispose.bind(a);
  let done;
  a.dispose = () => (done ??= dispose());
  opened.push(a);
  return a;
}
const factory = {
  provider: "postgres",
  adapterName: "@prisma/adapter-pg",
  connect: () => open(datasource.url),
  async connectToShadowDb() {
    if (datasource.shadowDatabaseUrl) return open(datasource.shadowDatabaseUrl);
    const db = `prisma_migrate_shadow_db_${randomUUID()}`;
    const admin = await open(datasource.url);
    await admin.executeScript(`CREATE DATABASE "${db}"`);
    const shadow = await open(withDb(datasource.url, db));
    const dispose = shadow.dispose.bind(shadow);
    shadow.dispose = async () => {
      await dispose();
      await admin.executeScript(`DROP DATABASE IF EXISTS "${db}" WITH (FORCE)`);
      await admin.dispose();
    };
    return shadow;
  },
};
function known(e) {
  // pg error -> Prisma's known connection errors
  const s = String(e?.cause?.originalMessage ?? e?.message ?? e),
    k = e?.cause?.kind ?? e?.kind;
  const { hostname, port } = new URL(datasource.url);
  if (k === "DatabaseDoesNotExist" || (/does not exist/.test(s) && /database/.test(s)))
    return ["P1003", `Database \`${dbName(datasource.url)}\` does not exist`];
  if (k === "AuthenticationFailed")
    return ["P1000", `Authentication failed against database server at \`${hostname}\``];
  if (k === "DatabaseNotReachable" || /ECONNREFUSED|ENOTFOUND|timeout/i.test(s))
    return ["P1001", `Can't reach database server at \`${hostname}:${port || 5432}\``];
  return [undefined, s];
}
async function adminRun(sql) {
  const a = await open(withDb(datasource.url, "postgres"));
  try {
    await a.executeScript(sql);
  } finally {
    await a.dispose();
  }
}

if (argv.includes("--version") || argv.includes("-V")) {
  console.log("schema-engine-wasm " + require("@prisma/engines-version").enginesVersion);
  process.exit(0);
}
const cli = argv.indexOf("cli");
if (cli >= 0) {
  try {
    const name = dbName(datasource.url).replaceAll('"', '""');
    if (argv[cli + 1] === "can-connect-to-database") {
      const a = await open(datasource.url);
      try {
        await a.executeScript("SELECT 1");
      } finally {
        await a.dispose();
      }
    } else if (argv[cli + 1] === "create-database") await adminRun(`CREATE DATABASE "${name}"`);
    else if (argv[cli + 1] === "drop-database")
      await adminRun(`DROP DATABASE IF EXISTS "${name}" WITH (FORCE)`);
    else throw new Error("unknown cli command " + argv[cli + 1]);
    process.exit(0);
  } catch (e) {
    const [error_code, message] = known(e);
    log("INFO", "start");
    log("ERROR", message, error_code ? { error_code } : {});
    process.exit(1);
  }
}

const bg = await import("@prisma/schema-engine-wasm/schema_engine_bg");
const wasmFile = join(
  dirname(require.resolve("@prisma/schema-engine-wasm/schema_engine_bg")),
  "schema_engine_bg.wasm",
);
const { instance } = await WebAssembly.instantiate(readFileSync(wasmFile), {
  "./schema_engine_bg.js": bg,
});
bg.__wbg_set_wasm(instance.exports);
instance.exports.__wbindgen_start();

let bound, engine;
async function get() {
  if (engine) return engine;
  bound = bindMigrationAwareSqlAdapterFactory(factory);
  const datamodels = opt("--datamodels").map((p) => [p, readFileSync(p, "utf8")]);
  engine = await bg.SchemaEngine.new(
    { datamodels: datamodels.length ? datamodels : undefined },
    (l) => {
      if (process.env.DEBUG) process.stderr.write(String(l) + "\n");
    },
    bound,
  );
  return engine;
}
const send = (o) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...o }) + "\n");
async function call(method, params) {
  if (method === "createDatabase") {
    await adminRun(`CREATE DATABASE "${dbName(datasource.url)}"`);
    return { databaseName: dbName(datasource.url) };
  }
  const e = await get();
  if (method === "getDatabaseVersion") return e.version(params);
  // these two read the migration history's schema from a cache that only devDiagnostic fills (through the shadow database)
  if (method === "evaluateDataLoss" || method === "createMigration")
    await e.devDiagnostic({ migrationsList: params.migrationsList, filters: params.filters });
  const r = await e[method](params);
  if (method === "diff" && r?.stdout != null) {
    send({ id: "print-1", method: "print", params: { content: r.stdout.replace(/\n$/, "") } });
    return { ...r, stdout: null };
  }
  return r ?? (method === "dbExecute" || method === "reset" ? null : {});
}
let queue = Promise.resolve();
const rl = createInterface({ input: process.stdin, crlfDelay: Infinity });
rl.on("line", (line) => {
  if (!line.trim()) return;
  const m = JSON.parse(line);
  if (!m.method) return; // reply to our print
  queue = queue.then(async () => {
    try {
      send({ id: m.id, result: await call(m.method, m.params) });
    } catch (e) {
      if (process.env.DEBUG) console.error(e);
      let err = e;
      const id = /External error \(reported by.*id[: ]+(\d+)/i.exec(String(e?.message))?.[1];
      if (id !== undefined) err = bound?.errorRegistry.consumeError(Number(id))?.error ?? e;
      const [c, msg] = e?.code ? [e.code, e.message] : known(err);
      send({
        id: m.id,
        error: {
          code: 4466,
          message: "An error happened. Check the data field for details.",
          data: { is_panic: false, message: msg, meta: e?.meta ?? null, error_code: c ?? null },
        },
      });
    }
  });
});
rl.on(
  "close",
  () =>
    void queue
      .then(() => Promise.all(opened.map((a) => a.dispose().catch(() => {}))))
      .then(() => process.exit(0)),
);
