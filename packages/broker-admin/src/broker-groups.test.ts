import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import type { BrokerGroups } from "./broker-groups.ts";
import { BrokerHttp } from "./broker-http.ts";

let server: Server | undefined;
let paths: string[];

afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

async function groupsOf(answer: unknown, status = 200): Promise<BrokerGroups> {
  paths = [];
  server = createServer((request, response) => {
    paths.push(request.url ?? "");
    response.writeHead(status).end(JSON.stringify(answer));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return new BrokerHttp({ adminUrl: `http://127.0.0.1:${port}`, adminToken: "secret" }).groups;
}

/** As the broker writes it. */
const SUMMARY = {
  ...{ group_id: "g", state: "Stable", protocol_type: "consumer", protocol: "range", idle: false },
  ...{ member_count: 1, partition_count: 2, offline_partition_count: 1 },
  ...{ lag: "18446744073709551615", committed_offset_sum: "9" },
};
const PARTITIONS = [
  {
    ...{ topic: "t", partition: 0, member_id: "m", committed_offset: null, start_offset: "4" },
    ...{ end_offset: "10", lag: "6", uncommitted: true, out_of_range: false, offline: false },
  },
  {
    ...{ topic: "t", partition: 1, member_id: null, committed_offset: "9", start_offset: null },
    ...{ end_offset: null, lag: null, uncommitted: false, out_of_range: false, offline: true },
  },
];
const READ = {
  ...{ groupId: "g", state: "Stable", protocolType: "consumer", members: 1 },
  ...{ partitionCount: 2, offlinePartitionCount: 1, committedOffsetSum: 9n, lag: 2n ** 64n - 1n },
};
const READ_PARTITIONS = [
  {
    ...{ topic: "t", partition: 0, memberId: "m", committedOffset: undefined, startOffset: 4n },
    ...{ endOffset: 10n, lag: 6n, outOfRange: false },
  },
  {
    ...{ topic: "t", partition: 1, memberId: undefined, committedOffset: 9n },
    ...{ startOffset: undefined, endOffset: undefined, lag: undefined, outOfRange: false },
  },
];

test("a page of groups comes with or without their partitions", async () => {
  const listed = { ...SUMMARY, partitions: PARTITIONS };
  const groups = await groupsOf({ groups: [listed], next: "g", loading: false });
  const page = await groups.list({ after: "a&b", limit: 7 });
  expect(page).toEqual({ groups: [{ ...READ, partitions: READ_PARTITIONS }], next: "g" });
  expect(await groups.summaries()).toEqual({ groups: [READ], next: "g" });
  expect(paths).toEqual(["/v1/groups?after=a%26b&limit=7&include=partitions", "/v1/groups"]);
});

test("one group comes with its members", async () => {
  const member = { member_id: "m", instance_id: null, client_id: "c", host: "::1" };
  const members = [{ ...member, partition_count: 1 }];
  const groups = await groupsOf({ ...SUMMARY, partitions: PARTITIONS, members });
  expect(await groups.describe("g/é")).toEqual({
    ...{ ...READ, partitions: READ_PARTITIONS, assignor: "range" },
    groupMembers: [
      { memberId: "m", instanceId: undefined, clientId: "c", host: "::1", partitionCount: 1 },
    ],
  });
  expect(paths).toEqual(["/v1/groups/g%2F%C3%A9"]);
});

test("a group that is not there is told from a broker without such pages", async () => {
  const error = { code: "GROUP_ID_NOT_FOUND", message: "there is no group g" };
  const groups = await groupsOf({ error }, 404);
  await expect(groups.describe("g")).rejects.toMatchObject({ code: "group_not_found" });
  server?.close();
  const older = await groupsOf("no such page", 404);
  await expect(older.describe("g")).rejects.toMatchObject({ code: "unsupported" });
});
