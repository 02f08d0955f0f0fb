/**
 * Two clusters of this machine as `npm start` runs them: a worker, a gateway, and brokers without an admin port. The links
 * go through a proxy, which cuts them. Whoever holds the site is its API.
 */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { BrokerHttp } from "@millrace/broker-admin";
import { brokerHttpBy, type Core, coreOf, createCore, deploymentOf } from "@millrace/core";
import { bootstrapServers, type Cluster, type Principal } from "@millrace/domain";
import { type ControlLink, localAccess } from "@millrace/provisioner";
import { TOKEN } from "../../gateway/test/fixture.ts";
import { type GatewayProcess, startGatewayProcess } from "../../gateway/test/gateway-process.ts";
import type { Installation } from "./fixture.ts";
import { brokerBin, consume, produce } from "./real-broker.ts";

export const GROUP = "readers";

export interface LinkedCluster {
  readonly cluster: Cluster;
  /** The broker, as API and worker call it. */
  readonly broker: BrokerHttp;
  /** A topic that only this cluster has, and that its group reads. */
  readonly ownTopic: string;
  readonly logFile: string;
}

export class LinkSite {
  readonly #it: Installation;
  readonly #ends: (() => unknown)[] = [];
  readonly #proxied = new Set<Socket>();
  #link!: ControlLink;
  #gateway!: GatewayProcess;
  #worker!: ChildProcess;
  core!: Core;

  private constructor(it: Installation) {
    this.#it = it;
  }

  static async open(it: Installation): Promise<LinkSite> {
    const site = new LinkSite(it);
    const proxyPort = await site.#startProxy();
    // The worker needs the gateway's address, and the gateway the worker's certificate.
    const internalPort = await freePort();
    site.#link = {
      address: `127.0.0.1:${proxyPort}`,
      url: `http://127.0.0.1:${internalPort}`,
      token: TOKEN,
    };
    await site.#startWorker();
    site.#gateway = await site.#startGateway({ broker: 0, internal: internalPort });
    site.core = site.#makeCore();
    return site;
  }

  async close(): Promise<void> {
    for (const end of this.#ends.reverse()) await end();
  }

  get principal(): Principal {
    return {
      organizationId: this.#it.organizationId,
      role: "owner",
      userId: "usr_01JD0000000000000000000000",
      apiKeyId: undefined,
    };
  }

  /** Creates a cluster by the worker, with a topic and a group of its own. */
  async cluster(name: string): Promise<LinkedCluster> {
    const { cluster: requested, operation } = await this.#it.requestCluster(name);
    const { phase, error } = await this.#it.waitForOperation(requested, operation.id);
    if (phase !== "SUCCEEDED") throw new Error(`${name}: ${error?.message}`);
    const cluster = await this.#it.waitForPhase(requested, "RUNNING");
    const deployment = deploymentOf(cluster);
    if (deployment === undefined) throw new Error("a running cluster has a placement");
    if (deployment.placement.adminPort !== undefined) throw new Error("it has an admin port");
    const broker = new BrokerHttp(await localAccess(this.#it.home, this.#link)(deployment));
    const ownTopic = `only-in-${name}`;
    await broker.topics.create({ name: ownTopic, partitions: 2, configs: {} });
    await produce(bootstrapServers(cluster) ?? "", ownTopic, 10);
    await consume(bootstrapServers(cluster) ?? "", ownTopic, 10);
    const logFile = join(this.#it.home, "clusters", cluster.id, "broker.log");
    return { cluster, broker, ownTopic, logFile };
  }

  brokersOf({ cluster }: LinkedCluster): number[] {
    return this.#it.brokersOf(cluster.id);
  }

  /** Cuts every link. */
  cutLinks(): void {
    for (const socket of this.#proxied) socket.destroy();
  }

  /** `kill -9`, and another one in its place. */
  async killGateway(): Promise<void> {
    const internal = Number(new URL(this.#link.url).port);
    await this.#gateway.kill("SIGKILL");
    this.#gateway = await this.#startGateway({ broker: this.#gateway.brokerPort, internal });
  }

  /** `kill -9`, and another one in its place. */
  async killWorker(): Promise<void> {
    const exited = once(this.#worker, "exit");
    this.#worker.kill("SIGKILL");
    await exited;
    await this.#startWorker();
  }

  async #startWorker(): Promise<void> {
    this.#worker = await this.#it.startProduct({
      stopBrokers: false,
      brokerBin: brokerBin ?? "",
      env: {
        MILLRACE_GATEWAY_ADDRESS: this.#link.address,
        MILLRACE_GATEWAY_URL: this.#link.url,
        MILLRACE_GATEWAY_TOKEN: this.#link.token,
      },
    });
  }

  async #startGateway(ports: { broker: number; internal: number }): Promise<GatewayProcess> {
    const site = {
      database: { gatewayUrl: this.#it.gatewayUrl },
      tlsFile: join(this.#it.home, "keys/gateway.pem"),
      onEnd: (work: () => unknown) => void this.#ends.push(work),
    };
    return await startGatewayProcess(site, ports);
  }

  /** What a broker sends reaches the gateway of the moment. */
  async #startProxy(): Promise<number> {
    const server = createServer((broker) => {
      const gateway = connect(this.#gateway?.brokerPort ?? 0, "127.0.0.1");
      for (const [socket, other] of [
        [broker, gateway],
        [gateway, broker],
      ] as const) {
        this.#proxied.add(socket);
        socket.on("error", () => {});
        socket.once("close", () => {
          this.#proxied.delete(socket);
          other.destroy();
        });
        socket.pipe(other);
      }
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    this.#ends.push(() => {
      server.close();
      this.cutLinks();
    });
    return (server.address() as AddressInfo).port;
  }

  #makeCore(): Core {
    const parts = createCore({
      db: this.#it.db,
      secret: "a secret of the tests, long enough",
      brokerHttp: brokerHttpBy(localAccess(this.#it.home, this.#link)),
      drivers: {
        // Tuning plans nothing.
        local: { plan: unneeded, allocate: unneeded, rootCertificate: unneeded },
        awsPlanner: undefined,
        localAvailable: true,
        awsRegion: undefined,
      },
    });
    return coreOf(parts, this.#it.organizationId);
  }
}

function unneeded(): never {
  throw new Error("tuning plans nothing");
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
