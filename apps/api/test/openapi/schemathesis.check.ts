/**
 * Schemathesis generates requests for every operation of the OpenAPI document and sends them to the API over a real
 * PostgreSQL: no answer is a server error, each has a status, a content type and a body that the document allows.
 *
 * MILLRACE_CHECK_EXAMPLES and MILLRACE_CHECK_SEED set how many requests per operation, and which.
 */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync } from "node:fs";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { bootstrapServers } from "@millrace/domain";
import { afterAll, beforeAll, expect, it } from "vitest";
import { listen } from "../../src/http-server.ts";
import { apiFixture, call, runningCluster } from "../fixture.ts";
import { answerRecords, CATCH_UP } from "./broker-answers.ts";

const EXAMPLES = process.env.MILLRACE_CHECK_EXAMPLES ?? "100";
const SEED = process.env.MILLRACE_CHECK_SEED ?? "1";
const RUN_SECONDS_MAX = 7_000;
/** More than `wait` may be. */
const REQUEST_SECONDS_MAX = 60;
const CHECKS = [
  "not_a_server_error",
  "status_code_conformance",
  "content_type_conformance",
  "response_headers_conformance",
  "response_schema_conformance",
  "ignored_auth",
];

const tools = join(import.meta.dirname, "../../../../.millrace-tools/schemathesis");
const run = promisify(execFile);
const fixture = apiFixture();
let server: Server;
let url: string;

beforeAll(async () => {
  server = listen({ fetch: fixture.app.fetch, hostname: "127.0.0.1", port: 0 });
  await once(server, "listening");
  fixture.records.answer = answerRecords;
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  server?.closeAllConnections();
  server?.close();
});

it("answers as the OpenAPI document says, whatever it is sent", async () => {
  const program = await install();
  const child = spawn(
    program,
    [
      ...["run", `${url}/v1/openapi.json`, "--url", url],
      ...["--checks", CHECKS.join(","), "--phases", "examples,coverage,fuzzing"],
      ...["--max-examples", EXAMPLES, "--seed", SEED, "--continue-on-failure"],
      ...["--request-timeout", String(REQUEST_SECONDS_MAX), "--generation-database", "none"],
      ...["--header", `Authorization: Bearer ${fixture.ours.apiKey}`],
      ...["--suppress-health-check", "all", "--warnings", "off", "--no-color"],
    ],
    {
      // It writes its caches here.
      cwd: tools,
      stdio: ["ignore", "inherit", "inherit"],
      timeout: RUN_SECONDS_MAX * 1_000,
      // Nothing else: what it and its dependencies do not get, they cannot leak.
      env: {
        PATH: process.env.PATH,
        LANG: "C.UTF-8",
        PYTHONPATH: import.meta.dirname,
        PYTHONDONTWRITEBYTECODE: "1",
        SCHEMATHESIS_HOOKS: "hooks",
        MILLRACE_KNOWN_OBJECTS: JSON.stringify(await knownObjects()),
      },
    },
  );
  const [code] = await once(child, "close");
  expect(code).toBe(0);
});

/** Objects by the path parameters that name them: some that are only read and changed, and some to delete. */
async function knownObjects(): Promise<Record<"kept" | "deletable", Record<string, string[]>>> {
  const kept = await createObjects("kept");
  const deletable = await createObjects("deletable");
  return { kept, deletable };
}

async function createObjects(prefix: string): Promise<Record<string, string[]>> {
  const { apiDb, ours } = fixture;
  const { cluster, operation } = await runningCluster(apiDb, ours, `${prefix}-cluster`);
  fixture.kafka.catchUps.set(bootstrapServers(cluster) ?? "", CATCH_UP);
  const below = `/v1/clusters/${cluster.id}`;
  const create = async (path: string, body: object) => {
    const created = await call(fixture.app, "POST", path, { apiKey: ours.apiKey, body });
    if (created.status !== 201) throw new Error(`${path}: ${JSON.stringify(created.body)}`);
    return created.body;
  };
  await create(`${below}/topics`, { name: "orders", partitions: 2, configs: {} });
  await create(`${below}/users`, { name: "alice" });
  const environment = await create("/v1/environments", { name: `${prefix}-environment` });
  const key = await create("/v1/api-keys", { name: prefix, role: "viewer" });
  const invited = { email: `${prefix}@example.com`, role: "viewer" };
  const invitation = await create("/v1/invitations", invited);
  return {
    cluster_id: [cluster.id],
    operation_id: [operation.id],
    topic_name: ["orders"],
    user_name: ["alice"],
    environment_id: [environment.metadata?.id ?? environment.id],
    api_key_id: [key.metadata?.id ?? key.id],
    invitation_id: [invitation.metadata?.id ?? invitation.id],
  };
}

/** Schemathesis from PyPI, in a virtual environment of its own; requirements.txt pins it. */
async function install(): Promise<string> {
  const requirements = join(import.meta.dirname, "requirements.txt");
  const complete = join(tools, "complete");
  if (!existsSync(complete)) {
    await run("python3", ["-m", "venv", "--clear", tools]);
    const pip = ["install", "--quiet", "--disable-pip-version-check", "-r", requirements];
    await run(join(tools, "bin/pip"), pip);
    mkdirSync(complete);
  }
  return join(tools, "bin/schemathesis");
}
