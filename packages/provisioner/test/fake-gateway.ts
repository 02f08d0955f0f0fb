/**
 * A gateway at which every broker of every cluster is connected and ready. Several brokers of a cluster are what `members` says;
 * one that is drained leads nothing any more, and has left once its instance is gone.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { LINK_HEADERS, type MemberState } from "@millrace/domain";
import type { Gateways } from "../src/index.ts";

export interface FakeGateway extends Gateways {
  /** Whether no broker is connected. */
  refuses: boolean;
  /** By node id; those that lead something are in `leading`. */
  readonly members: Map<number, MemberState>;
  readonly leading: Set<number>;
  /** Ids that a drain was asked for, in order. */
  readonly drained: number[];
  stop(): Promise<void>;
}

const PATH = /^\/v1\/clusters\/(?<cluster>[^/]+)\/brokers\/(?<broker>\d+)\/(?<rest>.*)$/;

export async function startFakeGateway(): Promise<FakeGateway> {
  const token = "a token of the tests";
  const server = createServer(async (request, response) => {
    const slot = PATH.exec(request.url ?? "")?.groups;
    response.setHeader(LINK_HEADERS.cluster, slot?.cluster ?? "");
    response.setHeader(LINK_HEADERS.broker, slot?.broker ?? "");
    if (request.headers.authorization !== `Bearer ${token}`) response.statusCode = 401;
    else if (gateway.refuses) response.statusCode = 503;
    else if (slot?.rest === "v1/cluster") response.end(JSON.stringify(membersOf(gateway)));
    else if (slot?.rest === "v1/cluster/drain") {
      const { node_id: id } = (await json(request)) as { node_id: number };
      gateway.drained.push(id);
      gateway.members.set(id, "draining");
      gateway.leading.delete(id);
      response.end("{}");
    } else if (slot?.rest !== "readyz") response.statusCode = 404;
    response.end();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const gateway: FakeGateway = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    token,
    refuses: false,
    members: new Map(),
    leading: new Set(),
    drained: [],
    async stop() {
      server.closeAllConnections();
      await once(server.close(), "close");
    },
  };
  return gateway;
}

function membersOf({ members, leading }: FakeGateway) {
  const brokers = [...members].map(([id, state]) => ({
    ...{ node_id: id, state, rack: null, version: "1" },
    ...{ leaders: leading.has(id) ? 1 : 0, moving: 0 },
  }));
  return { brokers, events: [] };
}
