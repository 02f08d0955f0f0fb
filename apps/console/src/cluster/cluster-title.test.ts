import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { clusterTitle } from "./cluster-title.ts";

vi.mock("next/headers", () => ({ headers: async () => new Headers({ cookie: "session=ours" }) }));

let server: Server;

beforeAll(async () => {
  server = createServer((request, response) => {
    const ours = request.headers.cookie === "session=ours" && request.url === "/v1/clusters/clu_1";
    response.writeHead(ours ? 200 : 404, { "content-type": "application/json" });
    response.end(ours ? JSON.stringify({ spec: { name: "orders" } }) : "{}");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  vi.stubEnv("MILLRACE_API_URL", `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});

afterAll(() => {
  vi.unstubAllEnvs();
  server.close();
});

test("a cluster's pages do not all have the title Cluster", async () => {
  expect(await clusterTitle("Topics", "clu_1")).toEqual({ title: "Topics · orders" });
});

test("a cluster that cannot be read leaves the page's own title", async () => {
  expect(await clusterTitle("Topics", "clu_gone")).toEqual({ title: "Topics" });
});
