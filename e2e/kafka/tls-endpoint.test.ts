/** A cluster made over REST has an endpoint with TLS: stock clients need the downloaded CA and the first user's password. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
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
  rest,
  type TestCluster,
  unique,
} from "../product.ts";
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
    const caFile = join(folder, "ca.pem");
    const ca = await fetch(
      new URL(`/v1/clusters/${cluster.id}/ca-certificate`, credentials.apiUrl),
      {
        headers: { authorization: `Bearer ${credentials.apiKey}` },
      },
    );
    writeFileSync(caFile, await ca.text());
    const rotated = await rest("POST", `/v1/clusters/${cluster.id}/users/admin/rotate`, {});
    expect(rotated.status, JSON.stringify(rotated.body)).toBe(200);
    user = {
      bootstrap: tls.bootstrap_servers,
      protocol: "SASL_SSL",
      caFile,
      mechanism: "SCRAM-SHA-512",
      username: "admin",
      password: rotated.body.password,
    };
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
    const made = await rest("POST", `/v1/clusters/${cluster.id}/users`, { name: "app" });
    const app = { ...user, username: "app", password: made.body.password };
    expect(await platformatic.topics(app)).not.toContain(topic);
    await expect(platformatic.produce(app, topic, ["one"])).rejects.toThrow();
    expect(await platformatic.topics(user)).toContain(topic);
  });

  it("no file of the installation and no answer of the API has the password", async () => {
    // Logs, clusters, the database with its write-ahead log: whatever is on the disk by now.
    const filesWith = (text: string) =>
      spawnSync("grep", ["-rlF", "-e", text, home], { encoding: "utf8" }).stdout;
    expect(filesWith(cluster.id), "the search finds what is there").toContain("server.properties");
    expect(filesWith(user.password)).toBe("");
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

/** The error that the client gives its user. @throws Error where it connects. */
async function refusal(client: SigningClient, signIn: SignIn): Promise<string> {
  const outcome = await client.topics(signIn).then(
    () => undefined,
    (error) => new Error("refused", { cause: error }),
  );
  if (outcome === undefined) throw new Error(`${client.name} connected`);
  return inspect(outcome, { depth: 8 });
}
