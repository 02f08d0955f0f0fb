#!/usr/bin/env node
/**
 * A stand-in for Prisma's native `schema-engine` program, which the CLI would download from its
 * vendor: the same JSON-RPC on standard input and output, run by the WebAssembly build of the same
 * engine from npm over the `pg` driver. Named by PRISMA_SCHEMA_ENGINE_BINARY.
 *
 * Two ways to be called: `cli can-connect-to-database | create-database | drop-database`, and
 * without a command as a server of one request per line, answered in order.
 */
import { createInterface } from "node:readline";
import { enginesVersion } from "@prisma/engines-version";
import {
  createDatabase,
  type Datasource,
  dropDatabase,
  toKnownError,
  tryConnection,
} from "./datasource.ts";
import { Engine } from "./engine.ts";
import { closeSessions } from "./session.ts";

/** JSON-RPC's code for errors whose nature is told in `data`. */
const RPC_ERROR = 4466;
const COMMANDS: Readonly<Record<string, (datasource: Datasource) => Promise<void>>> = {
  "can-connect-to-database": tryConnection,
  "create-database": createDatabase,
  "drop-database": dropDatabase,
};

interface Request {
  readonly id: unknown;
  readonly method?: string;
  readonly params: unknown;
}

const args = process.argv.slice(2);
const datasource = JSON.parse(valuesOf("--datasource")[0] ?? "{}") as Datasource;

if (args.includes("--version") || args.includes("-V")) printVersion();
else if (args.includes("cli")) await runCommand(args[args.indexOf("cli") + 1] ?? "");
else serve(new Engine(datasource, valuesOf("--datamodels")));

function valuesOf(option: string): string[] {
  return args.flatMap((arg, index) => (arg === option ? [args[index + 1] ?? ""] : []));
}

function printVersion(): void {
  process.stdout.write(`schema-engine-wasm ${enginesVersion}\n`);
}

async function runCommand(name: string): Promise<void> {
  try {
    const command = COMMANDS[name];
    if (!command) throw new Error(`unknown command ${name}`);
    await command(datasource);
  } catch (error) {
    const known = toKnownError(error, datasource);
    logLine("INFO", { message: "start" });
    logLine("ERROR", { message: known.message, ...(known.code && { error_code: known.code }) });
    process.exitCode = 1;
  }
  await closeSessions();
}

/** One line of the native engine's log, which the CLI reads from standard error. */
function logLine(level: string, fields: object): void {
  const timestamp = new Date().toISOString();
  const line = { timestamp, level, fields, target: "schema_engine::logger" };
  process.stderr.write(`${JSON.stringify(line)}\n`);
}

function serve(engine: Engine): void {
  let queue = Promise.resolve();
  const lines = createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY });
  lines.on("line", (line) => {
    if (line.trim() === "") return;
    const request = JSON.parse(line) as Request;
    // An answer to our own `print` has no method.
    if (request.method === undefined) return;
    queue = queue.then(() => answer(engine, request));
  });
  lines.on("close", () => {
    void queue.then(closeSessions).then(() => process.exit(0));
  });
}

async function answer(engine: Engine, { id, method = "", params }: Request): Promise<void> {
  try {
    send({ id, result: printed(method, await engine.call(method, params)) });
  } catch (error) {
    const origin = engine.originOf(error);
    const own = error as { code?: string; message?: string; meta?: unknown };
    const known = own.code
      ? { code: own.code, message: own.message ?? "" }
      : toKnownError(origin, datasource);
    const data = {
      is_panic: false,
      message: known.message,
      meta: own.meta ?? null,
      error_code: known.code ?? null,
    };
    const message = "An error happened. Check the data field for details.";
    send({ id, error: { code: RPC_ERROR, message, data } });
  }
}

/** The native engine has the CLI print a diff and does not return it. */
function printed(method: string, result: unknown): unknown {
  const { stdout } = (result ?? {}) as { stdout?: string | null };
  if (method !== "diff" || stdout === null || stdout === undefined) return result;
  send({ id: "print-1", method: "print", params: { content: stdout.replace(/\n$/, "") } });
  return { ...(result as object), stdout: null };
}

function send(message: object): void {
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
}
