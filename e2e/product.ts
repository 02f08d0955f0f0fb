/** The running product as its users see it: credentials, REST, nothing inside. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** What `npm start` writes for the first user. */
export interface Credentials {
  email: string;
  password: string;
  apiKey: string;
  apiUrl: string;
  consoleUrl: string;
}

/** The state folder of the product under test; `npm start`'s own where nothing else is named. */
export const home = process.env.MILLRACE_E2E_HOME ?? join(import.meta.dirname, "../.millrace");

export const credentials = JSON.parse(
  readFileSync(join(home, "credentials.json"), "utf8"),
) as Credentials;

/** Makes an account that runs the installation, as its command line does: the password. */
export function addPlatformOperator(email: string): string {
  const answer = execFileSync("npm", ["run", "--silent", "platform-operator", "--", "add", email], {
    cwd: join(import.meta.dirname, ".."),
    env: { ...process.env, MILLRACE_HOME: home },
    encoding: "utf8",
  });
  return JSON.parse(answer).password;
}

const RUNNING_SECONDS_MAX = 60;

/** One call of the REST API; the body is JSON or nothing. */
export async function rest(
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<{ status: number; headers: Headers; body: Json }> {
  const reply = await fetch(new URL(path, credentials.apiUrl), {
    method,
    headers: {
      authorization: `Bearer ${credentials.apiKey}`,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  const text = await reply.text();
  return {
    status: reply.status,
    headers: reply.headers,
    body: text === "" ? null : JSON.parse(text),
  };
}

// biome-ignore lint/suspicious/noExplicitAny: tests assert on the shapes that scripts see
export type Json = any;

/** A cluster that runs. */
export interface TestCluster {
  id: string;
  name: string;
  bootstrap: string;
}

/** Creates a cluster over REST and waits until it runs. */
export async function createCluster(
  name: string,
  size = "dev",
  further: object = {},
): Promise<TestCluster> {
  const created = await rest("POST", "/v1/clusters", { name, region: "local", size, ...further });
  if (created.status !== 202) throw new Error(`${created.status}: ${JSON.stringify(created.body)}`);
  const operation = await rest("GET", `${created.headers.get("location")}?wait=30s`);
  if (operation.body.phase !== "SUCCEEDED")
    throw new Error(JSON.stringify(operation.body, null, 2));
  const id = created.body.metadata.id as string;
  return { id, name, bootstrap: await untilRunning(id) };
}

/** Waits until the cluster runs; returns where clients connect. */
export async function untilRunning(id: string): Promise<string> {
  for (let waited = 0; waited < RUNNING_SECONDS_MAX * 10; waited++) {
    const { body } = await rest("GET", `/v1/clusters/${id}`);
    if (body.status?.phase === "RUNNING") return body.status.endpoints[0].bootstrap_servers;
    await sleep(100);
  }
  throw new Error(`${id} does not run after ${RUNNING_SECONDS_MAX} s`);
}

/** Deletes the cluster and waits until that is done. */
export async function deleteCluster(id: string): Promise<void> {
  const deleted = await rest("DELETE", `/v1/clusters/${id}?retain_days=0`);
  if (deleted.status !== 202) throw new Error(`${deleted.status}: ${JSON.stringify(deleted.body)}`);
  await rest("GET", `${deleted.headers.get("location")}?wait=30s`);
}

export async function createTopic(
  clusterId: string,
  name: string,
  partitions: number,
): Promise<void> {
  const created = await rest("POST", `/v1/clusters/${clusterId}/topics`, {
    name,
    partitions,
    configs: {},
  });
  if (created.status !== 201) throw new Error(`${created.status}: ${JSON.stringify(created.body)}`);
}

/** A name that no other test takes. */
export function unique(prefix: string): string {
  return `${prefix}-${Math.random().toString(36).slice(2, 8)}`;
}
