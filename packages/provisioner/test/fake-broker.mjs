#!/usr/bin/env node
/**
 * Stands in for the broker program in tests of what surrounds it: it takes the same command line and
 * configuration, answers the admin HTTP with the same paths and token, and ends on SIGTERM. It
 * speaks no Kafka. Properties `fake.*` make it misbehave:
 *
 *   fake.ready.delay.ms   not ready before this long after the start
 *   fake.exit.code        ends at once with this code, after a line on stderr
 *   fake.version          version that it says it is
 *   fake.ignore.sigterm   `true`: only SIGKILL ends it
 *   fake.metrics.file     text of `/metrics`, read again at each request
 *   fake.leaves           `fenced`: on SIGTERM it does not leave its cluster, as one that could not upload
 *   fake.recovery.report  file with the report of `recover`; the broker starts only once `recover
 *                         --yes` has written `<data.dir>/meta.db`
 *
 * With `metadata.database.url` it is a member of a cluster: each fake broker writes what the others see of it into a
 * file of the bucket's folder. A member that is drained leads nothing any more.
 *
 * The environment variable FAKE_READY_DELAY_MS stands in for the first where the configuration is
 * not the test's own.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

const [command, flag, configFile, mode] = process.argv.slice(2);
if ((command !== "broker" && command !== "recover") || flag !== "--config") {
  console.error("usage: broker --config FILE | recover --config FILE --dry-run|--yes --json");
  process.exit(64);
}
const properties = new Map(
  readFileSync(configFile, "utf8")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
);
const token = readFileSync(properties.get("admin.token.file"), "utf8").trim();
const startedAt = Date.now();
const readyDelayMs = Number(
  properties.get("fake.ready.delay.ms") ?? process.env.FAKE_READY_DELAY_MS ?? 0,
);

const exitCode = properties.get("fake.exit.code");
if (exitCode !== undefined) {
  console.error("the fake broker was told to fail");
  process.exit(Number(exitCode));
}

const reportFile = properties.get("fake.recovery.report");
const metadata = join(properties.get("data.dir"), "meta.db");
if (command === "recover") {
  if (reportFile === undefined) {
    console.error("the folder is in use");
    process.exit(75);
  }
  const report = readFileSync(reportFile, "utf8");
  if (mode === "--yes") writeFileSync(metadata, "recovered");
  console.log(JSON.stringify({ ...JSON.parse(report), applied: mode === "--yes" }));
  process.exit(0);
}
if (reportFile !== undefined && !existsSync(metadata)) {
  console.error("the metadata is blank: run millrace recover");
  process.exit(78);
}

const nodeId = Number(properties.get("node.id"));
const isMember = properties.has("metadata.database.url");
const bucket = properties.get("s3.data.buckets").replace("0@", "");
const members = isMember ? join(fileURLToPath(bucket), "members") : "";
const memberFile = (id) => join(members, `${id}.json`);
const readMember = (id) => JSON.parse(readFileSync(memberFile(id), "utf8"));
const writeMember = (id, member) => writeFileSync(memberFile(id), JSON.stringify(member));
const version = properties.get("fake.version") ?? "0";
if (isMember) {
  mkdirSync(members, { recursive: true });
  const rack = properties.get("broker.rack") ?? null;
  writeMember(nodeId, { node_id: nodeId, state: "active", rack, version, leaders: 2, moving: 0 });
}

const server = createServer(async (request, response) => {
  const answer = (status, body) => response.writeHead(status).end(body);
  if (request.url === "/healthz") return answer(200, "ok");
  if (request.headers.authorization !== `Bearer ${token}`) return answer(401, "token");
  if (request.url === "/readyz") {
    return Date.now() - startedAt < readyDelayMs ? answer(503, "starting") : answer(200, "ok");
  }
  if (request.url === "/v1/status") {
    const storage = { wal_capacity_bytes: 100, wal_used_bytes: 0, upload_pending_bytes: 0 };
    const status = {
      cluster_id: properties.get("cluster.id"),
      version,
    };
    return answer(200, JSON.stringify({ ...status, uploads_wait_for: null, storage }));
  }
  if (request.url === "/v1/cluster" && isMember) {
    const brokers = readdirSync(members).map((name) => readMember(Number.parseInt(name, 10)));
    return answer(200, JSON.stringify({ brokers, events: [] }));
  }
  if (request.url === "/v1/cluster/drain" && isMember) {
    const { node_id: id } = JSON.parse(await text(request));
    writeMember(id, { ...readMember(id), state: "draining", leaders: 0 });
    return answer(202, "");
  }
  if (request.url === "/metrics") {
    const file = properties.get("fake.metrics.file");
    return answer(200, file === undefined ? "" : readFileSync(file, "utf8"));
  }
  return answer(404, "no such path");
});
const [host, port] = properties.get("admin.listener").split(":");
// The occupied port plays the part of the real broker's lock on its data folder.
server.on("error", (error) => {
  console.error(`cannot listen: ${error.message}`);
  process.exit(1);
});
server.listen(Number(port), host, () => console.log("fake broker started"));

process.on("SIGTERM", () => {
  if (properties.get("fake.ignore.sigterm") === "true") return;
  console.log("fake broker stops");
  if (isMember) {
    const state = properties.get("fake.leaves") ?? "left";
    writeMember(nodeId, { ...readMember(nodeId), state, leaders: 0 });
  }
  server.close(() => process.exit(0));
  server.closeAllConnections();
});
