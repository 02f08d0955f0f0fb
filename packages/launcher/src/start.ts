/** `npm start` after the packages are there: build, set up, serve, and stop in the right order. */

import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { findTerraform, TERRAFORM_REMEDY, terraformPaths } from "./aws-tools.ts";
import { assertBuilt, databaseClient, servedPrograms } from "./built-parts.ts";
import { run } from "./command.ts";
import { Home, HomeInUse, portTaken } from "./home.ts";
import { enableMetadataRole, type RunningPostgres, startPostgres } from "./postgres.ts";
import { Service, type ServiceSpec } from "./service.ts";
import {
  gatewayToken,
  readSettings,
  replacedSessionSecrets,
  root,
  type Settings,
  sessionSecret,
  Unusable,
} from "./settings.ts";
import { print, printError } from "./terminal.ts";

const BUILD_SECONDS_MAX = 3_600;
/** Brokers drain inside the worker's stop: in-flight requests, then a flush of the log. */
const WORKER_STOP_SECONDS_MAX = 90;
const DATABASE = "millrace";
/** What programs connect as to the product's database. */
const ROLES = { api: "millrace_api", worker: "millrace_worker", gateway: "millrace_gateway" };

const startedAt = Date.now();
const stop = new AbortController();

// A terminal's Ctrl-C arrives several times: from the terminal, from npm, from the program that started this one.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => stop.abort());
}
process.exit(await main());

/** Serves until a signal. Returns the exit code: 0 where a signal asked for the stop, during set-up too. */
async function main(): Promise<number> {
  /** How to stop what was started, in the order in which it was. */
  const stops: (() => Promise<void> | void)[] = [];
  let code = 0;
  try {
    await serve(readSettings(process.env), stops);
    await stopRequested();
  } catch (error) {
    if (!stop.signal.aborted) {
      explain(error);
      code = 1;
    }
  }
  for (const each of stops.reverse()) await each();
  return code;
}

function stopRequested(): Promise<void> {
  return new Promise((resolve) => {
    if (stop.signal.aborted) resolve();
    else stop.signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** Brings everything up. Each step ends before a signal is heeded, so that nothing is left half started. */
async function serve(settings: Settings, stops: (() => Promise<void> | void)[]): Promise<void> {
  const home = await Home.take(settings.home);
  stops.push(() => home.release());
  stop.signal.throwIfAborted();
  await refuseTakenPorts(settings);
  const programs = servedPrograms(process.env);
  const skipsBuild = process.env.MILLRACE_SKIP_BUILD === "1";
  if (skipsBuild) assertBuilt([databaseClient()], [databaseClient(), ...programs]);
  else await build();

  stop.signal.throwIfAborted();
  print("starting PostgreSQL …");
  const postgres = await startPostgres({
    dir: join(settings.home, "postgres"),
    log: join(settings.home, "logs/postgres.log"),
  });
  stops.push(async () => {
    print("stopping PostgreSQL …");
    await postgres.stop();
    print("stopped; all data is kept.");
  });
  home.record("postgres", postgres.pid);
  stop.signal.throwIfAborted();
  const env = environment(settings);
  print("applying migrations …");
  const roles = roleUrls(postgres);
  await program("migrations", "packages/db/tools/migrate.ts", {
    ...env,
    DATABASE_URL: databaseUrl(postgres).toString(),
    MILLRACE_API_DATABASE_URL: roles.api,
    MILLRACE_WORKER_DATABASE_URL: roles.worker,
    MILLRACE_GATEWAY_DATABASE_URL: roles.gateway,
  });
  const metadataUrl = await enableMetadataRole(postgres.url, DATABASE, Object.values(ROLES));
  stop.signal.throwIfAborted();
  print("creating the first owner and tenant if needed …");
  const made = await program("first accounts", "apps/api/src/bootstrap.ts", {
    ...env,
    DATABASE_URL: roles.api,
  });

  stop.signal.throwIfAborted();
  if (skipsBuild) assertBuilt(programs);
  print("starting gateway, worker, API and console …");
  await startServices(services(settings, env, { ...roles, metadata: metadataUrl }), home, stops);
  stop.signal.throwIfAborted();
  announce(settings, JSON.parse(made) as Account);
}

/** Starts all at once; they stop one after the other, from the last to the first. */
async function startServices(
  specs: ServiceSpec[],
  home: Home,
  stops: (() => Promise<void> | void)[],
): Promise<void> {
  const started = specs.map(async (spec) => {
    const service = new Service(spec, print);
    stops.push(() => {
      print(`stopping ${spec.name} …`);
      return service.stop();
    });
    await service.start();
    home.record(spec.name, service.pid);
  });
  await Promise.race([Promise.all(started), stopRequested()]);
}

interface Account {
  email: string;
  password: string;
  apiKey: string;
}

function announce(settings: Settings, account: Account): void {
  const file = join(settings.home, "credentials.json");
  const credentials = { ...account, apiUrl: settings.apiUrl, consoleUrl: settings.consoleUrl };
  writeFileSync(file, `${JSON.stringify(credentials, null, 2)}\n`, { mode: 0o600 });
  chmodSync(file, 0o600);
  const seconds = ((Date.now() - startedAt) / 1_000).toFixed(1);
  console.log(`
  Millrace is up (${seconds} s).

    console    ${settings.consoleUrl}
    API        ${settings.apiUrl}        reference: ${settings.apiUrl}/docs
    sign in    ${account.email}, the password is in ${file}

  Ctrl-C stops everything; the next npm start restarts the clusters.
`);
}

async function refuseTakenPorts(settings: Settings): Promise<void> {
  const wanted = [
    [settings.apiPort, "MILLRACE_API_PORT", "API"],
    [settings.consolePort, "MILLRACE_CONSOLE_PORT", "console"],
    [settings.gatewayPort, "MILLRACE_GATEWAY_PORT", "gateway"],
    [settings.gatewayInternalPort, "MILLRACE_GATEWAY_INTERNAL_PORT", "gateway"],
  ] as const;
  for (const [port, variable, what] of wanted) {
    if (await portTaken(port)) {
      throw new Unusable(
        `port ${port}, which the ${what} needs, is in use`,
        `stop the process that listens there, or set ${variable} to a free port`,
      );
    }
  }
}

async function build(): Promise<void> {
  print(
    "building the broker (Rust) and the console (up to ten minutes the first time, seconds later) …",
  );
  const { code, output } = await run(
    "turbo",
    [
      "run",
      "build",
      "--filter=@millrace/dataplane",
      "--filter=@millrace/console",
      "--output-logs=new-only",
    ],
    { cwd: root, title: "building", secondsMax: BUILD_SECONDS_MAX, signal: stop.signal },
  );
  stop.signal.throwIfAborted();
  if (code !== 0) {
    console.error(output.split("\n").slice(-60).join("\n"));
    const full = /No space left on device|ENOSPC/.test(output);
    const again = "and run npm start again";
    throw full
      ? new Unusable("the disk is full", `free a few GiB ${again}`)
      : new Unusable("the build failed (see above)", `fix it ${again}`);
  }
}

/** The product's database as its owner, who alone migrates it. */
function databaseUrl(postgres: RunningPostgres): URL {
  const url = new URL(postgres.url);
  url.pathname = `/${DATABASE}`;
  return url;
}

interface RoleUrls {
  readonly api: string;
  readonly worker: string;
  readonly gateway: string;
}

/** The database as API, worker and gateway see it. Their passwords are new at each start and stand in no file. */
function roleUrls(postgres: RunningPostgres): RoleUrls {
  const urlOf = (role: string) => {
    const url = databaseUrl(postgres);
    url.username = role;
    url.password = randomBytes(24).toString("hex");
    return url.toString();
  };
  return { api: urlOf(ROLES.api), worker: urlOf(ROLES.worker), gateway: urlOf(ROLES.gateway) };
}

function environment(settings: Settings): NodeJS.ProcessEnv {
  const terraform = findTerraform(process.env);
  if (terraform.refusal !== undefined) {
    print(`AWS clusters are unavailable: ${terraform.refusal}; ${TERRAFORM_REMEDY}`);
  }
  return {
    ...process.env,
    ...terraformPaths(terraform),
    NODE_ENV: "production",
    MILLRACE_HOME: settings.home,
    MILLRACE_BROKER_BIN:
      process.env.MILLRACE_BROKER_BIN ?? join(root, "dataplane/target/release/millrace"),
    MILLRACE_API_PORT: String(settings.apiPort),
    MILLRACE_API_URL: settings.apiUrl,
    MILLRACE_CONSOLE_PORT: String(settings.consolePort),
    MILLRACE_CONSOLE_URL: settings.consoleUrl,
    MILLRACE_AUTH_SECRET: sessionSecret(settings.home),
    MILLRACE_AUTH_SECRETS_REPLACED: replacedSessionSecrets(settings.home),
    MILLRACE_STOP_BROKERS_ON_EXIT: "1",
    CHECKPOINT_DISABLE: "1",
    NEXT_TELEMETRY_DISABLED: "1",
  };
}

/** Every program, in the opposite order of their stops: first what takes requests, then what works on them. */
function services(
  settings: Settings,
  env: NodeJS.ProcessEnv,
  roles: RoleUrls & { readonly metadata: string },
): ServiceSpec[] {
  const log = (name: string) => join(settings.home, "logs", `${name}.log`);
  const node = process.execPath;
  // Each program knows the secrets that it uses: browsers speak to the console.
  const gateway = {
    MILLRACE_GATEWAY_TOKEN: gatewayToken(settings.home),
    MILLRACE_GATEWAY_ADDRESS: `127.0.0.1:${settings.gatewayPort}`,
    MILLRACE_GATEWAY_URL: `http://127.0.0.1:${settings.gatewayInternalPort}`,
  };
  const apiEnv = { ...env, ...gateway, DATABASE_URL: roles.api };
  const consoleEnv = {
    ...env,
    MILLRACE_AUTH_SECRET: undefined,
    MILLRACE_AUTH_SECRETS_REPLACED: undefined,
    DATABASE_URL: undefined,
  };
  const workerEnv = {
    ...consoleEnv,
    ...gateway,
    DATABASE_URL: roles.worker,
    MILLRACE_METADATA_DATABASE_URL: roles.metadata,
  };
  const gatewayEnv = {
    ...consoleEnv,
    DATABASE_URL: roles.gateway,
    MILLRACE_GATEWAY_TOKEN: gateway.MILLRACE_GATEWAY_TOKEN,
    MILLRACE_GATEWAY_LISTEN: gateway.MILLRACE_GATEWAY_ADDRESS,
    MILLRACE_GATEWAY_INTERNAL_LISTEN: `127.0.0.1:${settings.gatewayInternalPort}`,
    // The worker writes it when it starts.
    MILLRACE_GATEWAY_TLS_FILE: join(settings.home, "keys/gateway.pem"),
  };
  return [
    {
      name: "gateway",
      command: node,
      args: [join(root, "apps/gateway/src/main.ts")],
      env: gatewayEnv,
      cwd: root,
      log: log("gateway"),
      health: `${gateway.MILLRACE_GATEWAY_URL}/healthz`,
      stopSecondsMax: 25,
    },
    {
      name: "worker",
      command: node,
      args: [join(root, "apps/worker/src/main.ts")],
      env: workerEnv,
      cwd: root,
      log: log("worker"),
      stopSecondsMax: WORKER_STOP_SECONDS_MAX,
    },
    {
      name: "api",
      command: node,
      args: [join(root, "apps/api/src/main.ts")],
      env: apiEnv,
      cwd: root,
      log: log("api"),
      health: `http://127.0.0.1:${settings.apiPort}/healthz`,
      stopSecondsMax: 15,
    },
    {
      name: "console",
      command: node,
      // As the API's, whose requests the console forwards.
      args: [
        "--max-http-header-size=65536",
        join(root, "apps/console/.next/standalone/apps/console/server.js"),
      ],
      env: { ...consoleEnv, PORT: String(settings.consolePort), HOSTNAME: "127.0.0.1" },
      cwd: root,
      log: log("console"),
      health: `http://127.0.0.1:${settings.consolePort}/sign-in`,
      stopSecondsMax: 10,
    },
  ];
}

/** Runs a program that does one thing and prints its result. */
async function program(what: string, file: string, env: NodeJS.ProcessEnv): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [join(root, file)], {
      env,
      cwd: root,
    });
    return stdout;
  } catch (error) {
    const { stderr, message } = error as { stderr?: string; message: string };
    throw new Error(`${what} failed:\n${(stderr || message).trimEnd()}`);
  }
}

function explain(error: unknown): void {
  const text = error instanceof Error ? error.message : String(error);
  if (error instanceof Unusable) printError(text, error.remedy);
  else if (error instanceof HomeInUse) {
    printError(text, `stop it (kill ${error.pid}), or set MILLRACE_HOME to another folder`);
  } else printError(text, "fix the cause above and run npm start again; no data was lost");
}
