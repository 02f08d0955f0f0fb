import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Database, openDatabase, type TenantDatabase } from "@millrace/db";
import { type BrokerSlot, type ClusterId, linkCredential, newId } from "@millrace/domain";
import { selfSigned, setUp, type TestDatabase, withPostgres } from "@millrace/testkit";
import { pino } from "pino";
import { expect } from "vitest";
import { type Gateway, type GatewayOptions, startGateway } from "../src/gateway.ts";
import { type Answer, FakeBroker } from "./fake-broker.ts";

export const TOKEN = "token-of-api-worker-and-gateways-0123";
const WAIT_MS_MAX = 20_000;

/** One database, tenant and certificate for a test file; use it inside tests only. */
export class GatewayFixture {
  database!: TestDatabase;
  rows!: TenantDatabase;
  folder!: string;
  tlsFile!: string;
  root!: string;
  #worker!: Database;
  #arranging!: Database;
  #organizationId = newId("org");
  #environmentId!: Parameters<TenantDatabase["clusters"]["create"]>[0]["environmentId"];
  readonly #open: (() => unknown)[] = [];

  async start(): Promise<void> {
    this.database = await withPostgres();
    this.#arranging = openDatabase({ url: this.database.arrangeUrl });
    this.#worker = openDatabase({ url: this.database.workerUrl });
    this.#organizationId = newId("org");
    const id = this.#organizationId;
    const { organizations } = this.#arranging.tenant(id);
    await organizations.create({ id, name: "Tenant", slug: id });
    this.#environmentId = (await organizations.ensureEnvironment(id, "default")).id;
    this.rows = this.#worker.tenant(id);
    this.folder = await mkdtemp(join(tmpdir(), "millrace-gateway-"));
    this.tlsFile = join(this.folder, "gateway.pem");
    const { certificate, key } = await selfSigned();
    this.root = certificate;
    await writeFile(this.tlsFile, `${certificate}\n${key}`);
  }

  async stop(): Promise<void> {
    await this.endAll();
    await Promise.all([this.#arranging.close(), this.#worker.close()]);
    await this.database.drop();
    await rm(this.folder, { recursive: true, force: true });
  }

  /** Stops gateways and brokers of the test that ends. */
  async endAll(): Promise<void> {
    while (this.#open.length > 0) await this.#open.pop()?.();
  }

  onEnd(work: () => unknown): void {
    this.#open.push(work);
  }

  async gateway(options: Partial<GatewayOptions> = {}): Promise<Gateway> {
    const gateway = await startGateway({
      databaseUrl: this.database.gatewayUrl,
      listen: { host: "127.0.0.1", port: 0 },
      internalListen: { host: "127.0.0.1", port: 0 },
      token: TOKEN,
      tlsFile: this.tlsFile,
      logger: pino({ level: process.env.LOG_LEVEL ?? "silent" }),
      ...options,
    });
    const stop = once(() => gateway.stop());
    this.onEnd(stop);
    return { ...gateway, stop };
  }

  async cluster(): Promise<ClusterId> {
    const { id } = await this.#arranging.tenant(this.#organizationId).clusters.create({
      organizationId: this.#organizationId,
      environmentId: this.#environmentId,
      name: `c-${randomBytes(6).toString("hex")}`,
      region: "local",
      size: "dev",
      labels: {},
      conditions: [],
    });
    return id;
  }

  async credential(slot: BrokerSlot): Promise<string> {
    const credential = linkCredential(randomBytes(32).toString("base64url"));
    const hash = new Uint8Array(createHash("sha256").update(credential).digest());
    await this.rows.brokerLinks.issueCredential(slot, hash);
    return credential;
  }

  /** A broker with a credential, not connected yet. */
  async broker(port: number, slot?: BrokerSlot, answer?: Answer): Promise<FakeBroker> {
    const { clusterId, brokerId } = slot ?? { clusterId: await this.cluster(), brokerId: 0 };
    const credential = await this.credential({ clusterId, brokerId });
    const { root } = this;
    const broker = new FakeBroker({
      ...{ port, clusterId, brokerId, credential, root },
      ...(answer && { answer }),
    });
    this.onEnd(() => broker.close());
    return broker;
  }
}

export function gatewayFixture(): GatewayFixture {
  const fixture = new GatewayFixture();
  setUp(async () => {
    await fixture.start();
    return () => fixture.stop();
  });
  return fixture;
}

/** One call, as API and worker make it. */
export function call(
  { internalUrl }: Pick<Gateway, "internalUrl">,
  { clusterId, brokerId }: BrokerSlot,
  path = "/v1/status",
  init: RequestInit & { duplex?: "half" } = {},
): Promise<Response> {
  return fetch(`${internalUrl}/v1/clusters/${clusterId}/brokers/${brokerId}${path}`, {
    ...init,
    headers: { authorization: `Bearer ${TOKEN}`, ...(init.headers as Record<string, string>) },
  });
}

/** The error of an answer. */
export async function errorOf(response: Response) {
  const { error } = (await response.json()) as { error: { code: string; message: string } };
  return { status: response.status, ...error };
}

/** Waits until `check` does not throw. */
export async function eventually<T>(
  check: () => T | Promise<T>,
  msMax: number = WAIT_MS_MAX,
): Promise<T> {
  const until = performance.now() + msMax;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > until) throw error;
    }
    await sleep(20);
  }
}

/** Waits until a call is answered by the broker itself. */
export async function reached(
  gateway: Pick<Gateway, "internalUrl">,
  slot: BrokerSlot,
  msMax?: number,
): Promise<void> {
  await eventually(async () => {
    const response = await call(gateway, slot);
    await response.arrayBuffer();
    expect(response.status).toBe(200);
    expect(response.headers.get("millrace-cluster")).toBe(slot.clusterId);
    expect(response.headers.get("millrace-broker")).toBe(String(slot.brokerId));
  }, msMax);
}

function once<T>(work: () => T): () => T {
  let result: { value: T } | undefined;
  return () => {
    result ??= { value: work() };
    return result.value;
  };
}
