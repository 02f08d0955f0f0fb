import type { ConsumerGroupSummary } from "@millrace/domain";
import { describe, expect, test } from "vitest";
import { BrokerError } from "./broker-error.ts";
import type { GroupPage } from "./broker-groups.ts";
import type { BrokerHttp } from "./broker-http.ts";
import type { BrokerSetting } from "./broker-setting.ts";
import { clusterHttp } from "./several-brokers.ts";

/** A broker of which only these calls matter. */
function broker(calls: object): BrokerHttp {
  return { ready: async () => true, ...calls } as unknown as BrokerHttp;
}

const down = async (): Promise<never> => {
  throw new BrokerError("unreachable", "nothing listens");
};

function summary(groupId: string): ConsumerGroupSummary {
  return { groupId } as ConsumerGroupSummary;
}

function withGroups(ids: readonly string[], next?: string): BrokerHttp {
  const page: GroupPage<ConsumerGroupSummary> = { groups: ids.map(summary), next };
  return broker({ groups: { summaries: async () => page } });
}

function setting(value: string, min?: number, max?: number): Map<string, BrokerSetting> {
  return new Map([["a", { value, dynamic: true, min, max, reason: `of ${value}` }]]);
}

test("one broker is asked itself", async () => {
  const only = broker({});
  expect(await clusterHttp([only])).toBe(only);
});

test("users, ACLs and topics are asked of a broker that serves", async () => {
  const silent = broker({ ready: async () => false, listUsers: down });
  const serving = broker({ listUsers: async () => ["ada"] });
  const http = await clusterHttp([silent, serving]);
  expect(await http.listUsers()).toEqual(["ada"]);
  await expect((await clusterHttp([silent, silent])).listUsers()).rejects.toThrow("nothing");
});

describe("settings", () => {
  test("have the value that all brokers have, and the bounds that all take", async () => {
    const brokers = [setting("5", 1, 9), setting("5", 2, 8)].map((settings) =>
      broker({ settings: async () => settings }),
    );
    const settings = await (await clusterHttp(brokers)).settings();
    expect(settings.get("a")).toMatchObject({ value: "5", min: 2, max: 8 });
    const others = [setting("5"), setting("6")].map((settings) =>
      broker({ settings: async () => settings }),
    );
    const differing = await (await clusterHttp(others)).settings();
    expect(differing.get("a")?.value).toBeUndefined();
  });

  test("change at every broker, also where one does not answer", async () => {
    const changed: number[] = [];
    const changing = (id: number) => broker({ changeSettings: async () => changed.push(id) });
    const http = await clusterHttp([changing(1), broker({ changeSettings: down }), changing(3)]);
    await expect(http.changeSettings({ set: { a: "1" } })).rejects.toThrow("nothing listens");
    expect(changed).toEqual([1, 3]);
  });

  test("that a broker refuses are refused, whatever the others say", async () => {
    const refusing = broker({
      changeSettings: async () => {
        throw new BrokerError("invalid_config", "too large");
      },
    });
    const http = await clusterHttp([broker({ changeSettings: down }), refusing]);
    await expect(http.changeSettings({ set: { a: "1" } })).rejects.toMatchObject({
      code: "invalid_config",
    });
  });
});

describe("groups", () => {
  const idsOf = ({ groups, next }: GroupPage<ConsumerGroupSummary>) => [
    groups.map(({ groupId }) => groupId),
    next,
  ];

  test("are those of all brokers in order, each once", async () => {
    const http = await clusterHttp([withGroups(["b", "d"]), withGroups(["a", "b", "c"])]);
    expect(idsOf(await http.groups.summaries())).toEqual([["a", "b", "c", "d"], undefined]);
    expect(idsOf(await http.groups.summaries({ limit: 2 }))).toEqual([["a", "b"], "b"]);
  });

  test("end where a broker has not told what comes next", async () => {
    const http = await clusterHttp([withGroups(["a", "c"], "c"), withGroups(["b", "d", "e"], "e")]);
    expect(idsOf(await http.groups.summaries({ limit: 10 }))).toEqual([["a", "b", "c"], "c"]);
  });

  test("are described by the broker that has them", async () => {
    const without = broker({
      groups: {
        describe: async () => {
          throw new BrokerError("group_not_found", "no such group");
        },
      },
    });
    const having = broker({ groups: { describe: async () => summary("orders") } });
    const silent = broker({ groups: { describe: down } });
    expect(await (await clusterHttp([without, having])).groups.describe("orders")).toEqual({
      groupId: "orders",
    });
    await expect((await clusterHttp([without, without])).groups.describe("x")).rejects.toThrow(
      "no such group",
    );
    // It may be the silent one's.
    await expect((await clusterHttp([without, silent])).groups.describe("x")).rejects.toThrow(
      "nothing listens",
    );
  });
});

test("the storage is that of the fullest log, and waits for what any broker waits for", async () => {
  const storage = (walUsedBytes: number, uploadsWaitFor?: string) =>
    broker({
      storage: async () => ({
        walCapacityBytes: 100,
        walUsedBytes,
        walSecondsLeft: 60,
        uploadPendingBytes: 0,
        uploadsWaitFor,
      }),
    });
  const http = await clusterHttp([
    storage(10, "the bucket"),
    storage(60),
    broker({ storage: down }),
  ]);
  expect(await http.storage()).toMatchObject({ walUsedBytes: 60, uploadsWaitFor: "the bucket" });
});

test("of a quota, the broker counts where the most of it is used", async () => {
  const usage = (rate: number) =>
    broker({ quotaUsage: async () => [{ quota: "producer_byte_rate", user: "ada", rate }] });
  const http = await clusterHttp([usage(5), usage(9)]);
  expect(await http.quotaUsage()).toMatchObject([{ rate: 9 }]);
});
