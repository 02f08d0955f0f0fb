/** A gateway at which every broker of every cluster is connected and ready. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { LINK_HEADERS } from "@millrace/domain";
import type { Gateways } from "../src/index.ts";

export interface FakeGateway extends Gateways {
  /** Whether no broker is connected. */
  refuses: boolean;
  stop(): Promise<void>;
}

const READY = /^\/v1\/clusters\/(?<cluster>[^/]+)\/brokers\/(?<broker>\d+)\/readyz$/;

export async function startFakeGateway(): Promise<FakeGateway> {
  const token = "a token of the tests";
  const server = createServer((request, response) => {
    const slot = READY.exec(request.url ?? "")?.groups;
    if (request.headers.authorization !== `Bearer ${token}`) response.statusCode = 401;
    else if (slot === undefined) response.statusCode = 404;
    else if (gateway.refuses) response.statusCode = 503;
    response.setHeader(LINK_HEADERS.cluster, slot?.cluster ?? "");
    response.setHeader(LINK_HEADERS.broker, slot?.broker ?? "");
    response.end();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const gateway: FakeGateway = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    token,
    refuses: false,
    async stop() {
      server.closeAllConnections();
      await once(server.close(), "close");
    },
  };
  return gateway;
}
