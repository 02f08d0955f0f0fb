/**
 * A cluster made over REST has an endpoint with TLS: stock clients need the downloaded CA and the first user's password.
 * It may be the only one.
 */
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { rootCertificates } from "node:tls";
import { inspect } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  createCluster,
  createTopic,
  credentials,
  deleteCluster,
  home,
  type Json,
  rest,
  type TestCluster,
  unique,
  untilRunning,
} from "../product.ts";
import { delegationTokens } from "./clients/delegation-tokens.ts";
import {
  java,
  kafkajs,
  librdkafka,
  platformatic,
  type SignIn,
  type SigningClient,
} from "./clients/signed-in.ts";

const clients = [
  process.env.MILLRACE_KCAT === "" ? undefined : librdkafka,
  process.env.MILLRACE_KAFKA_JARS ? java : undefined,
  kafkajs,
  platformatic,
].filter((client) => client !== undefined);

describe("the TLS endpoint of a new cluster", () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-tls-"));
  let cluster: TestCluster;
  let user: SignIn;

  beforeAll(async () => {
    cluster = await createCluster(unique("tls"));
    const { body } = await rest("GET", `/v1/clusters/${cluster.id}`);
    const [, tls] = body.status.endpoints;
    expect(tls).toMatchObject({ name: "kafka-tls", protocol: "SASL_SSL" });
    user = await firstUser(cluster.id, tls.bootstrap_servers, folder);
  });
  afterAll(async () => {
    await deleteCluster(cluster.id);
    rmSync(folder, { recursive: true });
  });

  const each = clients.map((client) => [client.name, client] as const);

  it.for(each)(
    "%s writes and reads with the downloaded CA and the new password",
    async ([, client]) => {
      const topic = unique("tls");
      await createTopic(cluster.id, topic, 1);
      await client.produce(user, topic, ["one", "two"]);
      expect(await client.consume(user, topic, 2)).toEqual(["one", "two"]);
    },
  );

  it.for(each)("%s is refused with another password", async ([, client]) => {
    const error = await refusal(client, { ...user, password: "wrong" });
    expect(error).toMatch(/authentication fail|authentication error/i);
  });

  it.for(each)("%s does not connect without the CA", async ([, client]) => {
    const caFile = join(folder, "foreign.pem");
    writeFileSync(caFile, `${rootCertificates[0]}\n`);
    const error = await refusal(client, { ...user, caFile });
    expect(error).toMatch(/certificate|SSL|TLS/i);
  });

  it("a user without ACLs signs in, sees no topic and may not write to one", async () => {
    const topic = unique("closed");
    await createTopic(cluster.id, topic, 1);
    const username = unique("app");
    const made = await rest("POST", `/v1/clusters/${cluster.id}/users`, { name: username });
    expect(made.status, JSON.stringify(made.body)).toBe(201);
    const app = { ...user, username, password: made.body.password };
    expect(await platformatic.topics(app)).not.toContain(topic);
    await expect(platformatic.produce(app, topic, ["one"])).rejects.toThrow();
    expect(await platformatic.topics(user)).toContain(topic);
  });

  it("no file of the installation and no answer of the API has the password", async () => {
    // Logs, clusters, the database with its write-ahead log: whatever is on the disk by now.
    const properties = join(home, "clusters", cluster.id, "server.properties");
    expect(filesWith(cluster.id), "the search finds what is there").toContain(properties);
    expect(filesWith(user.password)).toEqual([]);
    const { body: operations } = await rest("GET", `/v1/operations?cluster_id=${cluster.id}`);
    const [{ id }] = operations.items;
    const paths = [
      ...["", "/plan"].map((part) => `/v1/operations/${id}${part}`),
      ...["", "/users", "/users/admin"].map((part) => `/v1/clusters/${cluster.id}${part}`),
      "/v1/audit-events?page_size=100",
    ];
    for (const path of paths) {
      const { status, body } = await rest("GET", path);
      expect(status, path).toBe(200);
      expect(JSON.stringify(body), path).not.toContain(user.password);
    }
  });
});

describe("a cluster without the plaintext listener", () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-tls-only-"));
  let cluster: TestCluster;
  let user: SignIn;

  const path = (part: string) => `/v1/clusters/${cluster.id}${part}`;
  const endpoints = async () => (await rest("GET", path(""))).body.status.endpoints;
  /** @throws AssertionError unless the answer has this status. */
  async function call(expected: number, method: string, part: string, body?: unknown) {
    const answer = await rest(method, path(part), body);
    expect(answer.status, `${method} ${part}: ${JSON.stringify(answer.body)}`).toBe(expected);
    return answer;
  }
  async function operation(method: string, part: string, body?: unknown) {
    const { headers } = await call(202, method, part, body);
    let done = await rest("GET", `${headers.get("location")}?wait=30s`);
    while (["PENDING", "RUNNING"].includes(done.body.phase)) {
      done = await rest("GET", `${headers.get("location")}?wait=30s`);
    }
    expect(done.body.phase, JSON.stringify(done.body)).toBe("SUCCEEDED");
  }
  async function isProductionMeasured(): Promise<boolean> {
    const now = Date.now();
    const query = `from=${now - 300_000}&to=${now}&step=5`;
    const { body } = await call(200, "GET", `/metrics?${query}`);
    const { points } = body.series.find((each: Json) => each.name === "bytes_in_rate");
    return points.some(([, rate]: [number, number | null]) => rate);
  }
  /** The port of the listener that is off: OPERATIONS.md, "Security", says where it is. */
  const plaintextPort = () => Number(user.bootstrap.split(":")[1]) - 1_000;

  beforeAll(async () => {
    cluster = await createCluster(unique("tls-only"), "dev", { plaintext_listener: false });
    user = await firstUser(cluster.id, cluster.bootstrap, folder);
  });
  afterAll(async () => {
    await deleteCluster(cluster.id);
    rmSync(folder, { recursive: true });
  });

  it("has one endpoint, and nothing listens at the other's port", async () => {
    expect(await endpoints()).toEqual([
      { name: "kafka-tls", protocol: "SASL_SSL", bootstrap_servers: user.bootstrap },
    ]);
    expect(await connectError(plaintextPort())).toBe("ECONNREFUSED");
  });

  it("serves stock clients and everything that the console shows", async () => {
    const topic = unique("orders");
    await call(201, "POST", "/topics", { name: topic, partitions: 2, configs: {} });
    const record = { value: { encoding: "text", data: "over HTTP" } };
    await call(200, "POST", `/topics/${topic}/records`, { records: [record] });
    for (const client of clients) {
      await client.produce(user, topic, [client.name]);
    }
    const values = await platformatic.consume(user, topic, clients.length + 1);
    expect(values.sort()).toEqual(["over HTTP", ...clients.map(({ name }) => name)].sort());
    const { body: read } = await call(200, "GET", `/topics/${topic}/records?newest=10`);
    expect(read.records).toHaveLength(clients.length + 1);
    await call(200, "PATCH", `/topics/${topic}`, { configs: { "retention.ms": "60000" } });
    await call(200, "GET", "/consumer-groups");

    const username = unique("app");
    const { body: app } = await call(201, "POST", "/users", { name: username });
    const writer = { principal: `User:${username}`, resource_type: "topic", resource_name: topic };
    await call(201, "POST", "/acls", { ...writer, operation: "write", permission: "allow" });
    const asApp = { ...user, username, password: app.password };
    await platformatic.produce(asApp, topic, ["allowed"]);
    await call(200, "POST", "/quotas", { user: username, producer_byte_rate: 1_000_000 });
    await call(200, "GET", "/quota-usage");
    const { body: users } = await call(200, "GET", "/users");
    const names = users.items.map(({ name }: Json) => name);
    expect(names).toEqual(expect.arrayContaining(["admin", username]));
    await call(204, "DELETE", `/users/${username}`);
    await call(204, "DELETE", `/topics/${topic}`);
  });

  it("takes tuning and runs benchmarks", async () => {
    await call(200, "PATCH", "/tuning", { block_cache_bytes: 32 * 1024 ** 2 });
    const load = { workload: "end_to_end", duration_seconds: 10, bytes_per_second: 1024 ** 2 };
    await operation("POST", "/benchmarks", load);
    const { body } = await call(200, "GET", "/benchmarks");
    expect(body.items[0].report.produced, JSON.stringify(body.items[0])).toMatchObject({
      errors: 0,
    });
    await expect.poll(isProductionMeasured, { timeout: 60_000 }).toBe(true);
  });

  it.skipIf(!process.env.MILLRACE_KAFKA_JARS)(
    "kafka-delegation-tokens creates a token, by which a client signs in",
    async () => {
      const topic = unique("by-token");
      await createTopic(cluster.id, topic, 1);
      const { created, topics, gone } = await delegationTokens(user);
      expect(created.join("\n")).toContain("User:admin");
      expect(topics).toContain(topic);
      expect(gone.join("\n")).not.toContain("User:admin");
    },
  );

  it("keeps the control plane's password and the key of tokens to its own folder", async () => {
    const mine = join(home, "clusters", cluster.id);
    const { body: operations } = await rest("GET", `/v1/operations?cluster_id=${cluster.id}`);
    const parts = operations.items.flatMap(({ id }: Json) => [
      `/v1/operations/${id}`,
      `/v1/operations/${id}/plan`,
    ]);
    const answers = await Promise.all(
      [...parts, path(""), path("/tuning"), path("/drift"), "/v1/audit-events?page_size=100"].map(
        async (each) => JSON.stringify((await rest("GET", each)).body),
      ),
    );
    for (const [file, copies] of [
      ["admin.token", []],
      ["delegation.key", ["server.properties"]],
    ] as const) {
      const secret = readFileSync(join(mine, file), "utf8").trim();
      const expected = [file, ...copies].map((name) => join(mine, name)).sort();
      expect(filesWith(secret)).toEqual(expected);
      for (const each of expected) expect(statSync(each).mode & 0o777, each).toBe(0o600);
      for (const answer of answers) expect(answer).not.toContain(secret);
    }
  });

  it("is paused and resumed, and gets its plaintext listener back", async () => {
    await operation("POST", "/pause");
    await operation("POST", "/resume");
    await untilRunning(cluster.id);
    await platformatic.topics(user);
    expect(await connectError(plaintextPort())).toBe("ECONNREFUSED");
    await operation("PATCH", "", { plaintext_listener: true });
    const address = await untilRunning(cluster.id);
    expect(address).toBe(`127.0.0.1:${plaintextPort()}`);
    await platformatic.topics({ ...user, bootstrap: address, protocol: "PLAINTEXT" });
    expect((await endpoints()).map(({ name }: Json) => name)).toEqual(["kafka", "kafka-tls"]);
    await operation("PATCH", "", { plaintext_listener: false });
    await untilRunning(cluster.id);
    expect(await connectError(plaintextPort())).toBe("ECONNREFUSED");
    await call(200, "GET", "/topics");
  });
});

/** Files of the installation that contain the text, sorted. */
function filesWith(text: string): string[] {
  const { stdout } = spawnSync("grep", ["-rlF", "-e", text, home], { encoding: "utf8" });
  return stdout.split("\n").filter(Boolean).sort();
}

/** The first user at this address, with a new password, and the installation's CA in a file. */
async function firstUser(id: string, bootstrap: string, folder: string): Promise<SignIn> {
  const caFile = join(folder, "ca.pem");
  const ca = await fetch(new URL(`/v1/clusters/${id}/ca-certificate`, credentials.apiUrl), {
    headers: { authorization: `Bearer ${credentials.apiKey}` },
  });
  writeFileSync(caFile, await ca.text());
  const rotated = await rest("POST", `/v1/clusters/${id}/users/admin/rotate`, {});
  expect(rotated.status, JSON.stringify(rotated.body)).toBe(200);
  return {
    ...{ bootstrap, protocol: "SASL_SSL", caFile, mechanism: "SCRAM-SHA-512" },
    ...{ username: "admin", password: rotated.body.password },
  };
}

/** Code of the error of a TCP connection; `undefined` where somebody accepts it. */
async function connectError(port: number): Promise<string | undefined> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code;
  } finally {
    socket.destroy();
  }
}

/** The error that the client gives its user. @throws Error where it connects. */
async function refusal(client: SigningClient, signIn: SignIn): Promise<string> {
  const outcome = await client.topics(signIn).then(
    () => undefined,
    (error) => new Error("refused", { cause: error }),
  );
  if (outcome === undefined) throw new Error(`${client.name} connected`);
  return inspect(outcome, { depth: 8 });
}
