import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import type { AddressInfo, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer } from "node:tls";
import { type KafkaAddress, withKafkaAdmin } from "@millrace/broker-admin";
import { afterEach, beforeEach, expect, test } from "vitest";
import { CertificateAuthority } from "./certificate-authority.ts";

const LOOPBACK = "127.0.0.1";

let home: string;
const closing: (() => void)[] = [];

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "millrace-access-"));
});

afterEach(async () => {
  for (const close of closing.splice(0)) close();
  await rm(home, { recursive: true, force: true });
});

/** A broker that dies as soon as a client has begun to sign in: its system resets the connection. */
async function brokerThatDies(): Promise<KafkaAddress> {
  const authority = new CertificateAuthority(home);
  const pem = await authority.issue(LOOPBACK, { dns: [], ip: [LOOPBACK] });
  const raw: Socket[] = [];
  const server = createServer({ cert: pem, key: pem }, (socket) => {
    socket.on("error", () => {});
    socket.once("data", () => {
      for (const connection of raw.splice(0)) connection.resetAndDestroy();
    });
  });
  server.on("connection", (connection) => raw.push(connection));
  server.listen(0, LOOPBACK);
  await once(server, "listening");
  closing.push(() => server.close());
  const { port } = server.address() as AddressInfo;
  const rootCertificate = (await authority.root()) ?? "";
  const signIn = { rootCertificate, user: "u", password: "p" };
  return { bootstrapServers: `${LOOPBACK}:${port}`, signIn };
}

test("a broker that died while the control plane signed in ended its process", async () => {
  const address = await brokerThatDies();
  // Vitest fails the run for an exception that nobody catches.
  await expect(withKafkaAdmin(address, (kafka) => kafka.topicNames())).rejects.toMatchObject({
    code: "unreachable",
  });
});
