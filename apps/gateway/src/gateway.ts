/**
 * Composes a gateway. All state that matters is in the links: after a kill, brokers connect again and the next gateway
 * continues.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { openDatabase } from "@millrace/db";
import type { Logger } from "pino";
import { DRAIN_MS_MAX } from "./bounds.ts";
import { BrokerListener } from "./broker-listener.ts";
import { CallServer } from "./call-server.ts";
import type { Link } from "./link.ts";
import { LinkLedger } from "./link-ledger.ts";
import { Links } from "./links.ts";
import { TlsFile } from "./tls-file.ts";

export interface Endpoint {
  readonly host: string;
  /** 0: a free one. */
  readonly port: number;
}

export interface GatewayOptions {
  readonly databaseUrl: string;
  /** Where brokers connect. */
  readonly listen: Endpoint;
  /** Where API, worker and other gateways call brokers. */
  readonly internalListen: Endpoint;
  /** How other gateways reach this one; the address of `internalListen` where absent. */
  readonly internalUrl?: string | undefined;
  readonly token: string;
  /** Certificate, chain and key in PEM; undefined where a load balancer ends TLS. */
  readonly tlsFile: string | undefined;
  readonly logger: Logger;
  /** Ends the wait for the certificate at the start. */
  readonly signal?: AbortSignal;
}

export interface Gateway {
  readonly brokerPort: number;
  readonly internalUrl: string;
  readonly links: Links;
  /** Has brokers connect elsewhere, and ends calls that do not end by themselves. */
  stop(): Promise<void>;
}

/** @throws RoleUnconfined, and errors that say what to do. */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const { logger, listen, internalListen, token } = options;
  const onError = (err: Error) => logger.error({ err }, "the database's connection failed");
  const db = openDatabase({ url: options.databaseUrl, onError });
  let isReady = false;
  const identity = { id: randomUUID(), internalUrl: options.internalUrl ?? "" };
  let ledger: LinkLedger;
  const links = new Links((link, reason) => {
    ledger.ended(link);
    logger.info({ ...described(link), reason, links: links.size }, "link ended");
  });
  const gateways = db.gateways;
  const isOpen = () => isReady;
  const calls = new CallServer({ token, identity, gateways, links, isReady: isOpen, logger });
  const tls = options.tlsFile === undefined ? undefined : new TlsFile(options.tlsFile, logger);
  try {
    const internalPort = await calls.listen(internalListen.host, internalListen.port);
    identity.internalUrl ||= `http://${hostOf(internalListen)}:${internalPort}`;
    ledger = new LinkLedger(gateways, identity, links, logger);
    await assertConfined(db, logger);
    await ledger.start();
    const pem = await tls?.wait(options.signal ?? new AbortController().signal);
    const onLink = (link: Link) => {
      logger.info({ ...described(link), links: links.size }, "link made");
      void ledger.added(link);
    };
    const listener = new BrokerListener({ pem, gateways, links, onLink, logger });
    const brokerPort = await listener.listen(listen.host, listen.port);
    tls?.watch((changed) => listener.setCertificate(changed));
    isReady = true;
    const { internalUrl } = identity;
    logger.info({ brokerPort, internalUrl }, "gateway started");
    return {
      brokerPort,
      internalUrl,
      links,
      async stop() {
        isReady = false;
        tls?.close();
        listener.drain();
        await drain(links);
        await ledger.stop();
        await calls.close();
        await db.close();
      },
    };
  } catch (error) {
    tls?.close();
    await calls.close();
    await db.close();
    throw error;
  }
}

/** A database that is away says nothing about the role; brokers that connect meanwhile are told to try again. */
async function assertConfined(db: ReturnType<typeof openDatabase>, logger: Logger): Promise<void> {
  try {
    await db.assertConfined();
  } catch (error) {
    if ((error as Error).name === "RoleUnconfined") throw error;
    logger.error({ err: error }, "the database does not answer");
  }
}

async function drain(links: Links): Promise<void> {
  const ended = Promise.all(links.all().map((link) => link.whenEnded));
  for (const link of links.all()) link.drain();
  const deadline = new AbortController();
  const late = sleep(DRAIN_MS_MAX, undefined, { signal: deadline.signal }).catch(() => {});
  await Promise.race([ended, late]);
  deadline.abort();
  for (const link of links.all()) link.end("the gateway stops");
  await ended;
}

function described({ info }: Link) {
  const { clusterId, brokerId, remoteAddress, brokerVersion } = info;
  return { clusterId, brokerId, remoteAddress, brokerVersion };
}

function hostOf({ host }: Endpoint): string {
  return host.includes(":") ? `[${host}]` : host;
}
