/** Settings of the broker and of topics, changed by a stock client while the broker runs. */
import { inspect } from "node:util";
import {
  Admin,
  ConfigResourceTypes,
  IncrementalAlterConfigOperationTypes,
} from "@platformatic/kafka";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createCluster, createTopic, deleteCluster, type TestCluster, unique } from "../product.ts";

const { SET, DELETE, APPEND, SUBTRACT } = IncrementalAlterConfigOperationTypes;
const { BROKER, TOPIC } = ConfigResourceTypes;
/** Kafka's numbers of where a value comes from. */
const FROM_TOPIC = 1;
const FROM_BROKER = 2;
const FROM_ALL_BROKERS = 3;
const PREFETCH = "s3.prefetch.max.bytes";

interface Change {
  name: string;
  value: string | null;
  configOperation: number;
}

describe("settings at run time", () => {
  let cluster: TestCluster;
  let admin: Admin;
  let brokerId: string;

  beforeAll(async () => {
    cluster = await createCluster(unique("configs"));
    admin = new Admin({ clientId: "e2e", bootstrapBrokers: [cluster.bootstrap], retries: 0 });
    const { brokers } = await admin.metadata({ topics: [] });
    brokerId = String([...brokers.keys()][0]);
  });
  afterAll(async () => {
    await admin?.close();
    await deleteCluster(cluster.id);
  });

  const alter = (resourceType: number, resourceName: string, ...configs: Change[]) =>
    admin.incrementalAlterConfigs({
      resources: [{ resourceType, resourceName, configs }],
      validateOnly: false,
    } as Parameters<Admin["incrementalAlterConfigs"]>[0]);

  /** Value and source of one setting. */
  async function shown(resourceType: number, resourceName: string, name: string) {
    const [resource] = await admin.describeConfigs({
      resources: [{ resourceType, resourceName, configurationKeys: [name] }],
      includeSynonyms: true,
    } as Parameters<Admin["describeConfigs"]>[0]);
    const found = resource?.configs.find((config) => config.name === name);
    return found && { value: found.value, source: found.configSource, readOnly: found.readOnly };
  }

  it("a broker's own value holds over the one for all brokers, and goes again", async () => {
    const reset = async () => {
      for (const id of [brokerId, ""])
        await alter(BROKER, id, { name: PREFETCH, value: null, configOperation: DELETE });
    };
    await reset();
    const before = await shown(BROKER, brokerId, PREFETCH);
    expect(before?.readOnly).toBe(false);
    await alter(BROKER, "", { name: PREFETCH, value: "2097152", configOperation: SET });
    expect(await shown(BROKER, brokerId, PREFETCH)).toMatchObject({
      value: "2097152",
      source: FROM_ALL_BROKERS,
    });
    await alter(BROKER, brokerId, { name: PREFETCH, value: "4194304", configOperation: SET });
    expect(await shown(BROKER, brokerId, PREFETCH)).toMatchObject({
      value: "4194304",
      source: FROM_BROKER,
    });
    await reset();
    expect(await shown(BROKER, brokerId, PREFETCH)).toEqual(before);
  });

  it("a refusal names the setting, the bound, the reason and what to write", async () => {
    const refusal = async (name: string, value: string) =>
      inspect(
        await alter(BROKER, brokerId, { name, value, configOperation: SET }).then(
          () => "accepted",
          (error: unknown) => error,
        ),
        { depth: 9 },
      );
    expect(await refusal("s3.block.cache.size", "4096")).toMatch(
      /s3\.block\.cache\.size: 4096 is below the least of \d+: .+; write at least \d+/,
    );
    expect(await refusal("num.partitions", "3")).toMatch(/set it in server\.properties/);
    expect(await refusal("s3.block.cache.sise", "1")).toMatch(
      /did you mean s3\.block\.cache\.size/,
    );
  });

  it("a topic rejects values that do not hold, with what is legal and why", async () => {
    const topic = unique("rejecting");
    await createTopic(cluster.id, topic, 1);
    const refusal = async (name: string, value: string) =>
      inspect(
        await alter(TOPIC, topic, { name, value, configOperation: SET }).then(
          () => "accepted",
          (error: unknown) => error,
        ),
        { depth: 9 },
      );
    expect(await refusal("preallocate", "true")).toMatch(/preallocate: expected false: .+/);
    expect(await refusal("compression.zstd.level", "23")).toMatch(/from -131072 to 22/);
    expect(await refusal("message.format.version", "3.0")).toMatch(/unknown topic config name/);
    expect(await refusal("segment.bytes", "52428800")).toMatch("accepted");
    expect(await refusal("min.insync.replicas", "2")).toMatch("accepted");
  });

  it("a topic's configurations change one by one, lists by their elements", async () => {
    const topic = unique("configured");
    await createTopic(cluster.id, topic, 1);
    await alter(
      TOPIC,
      topic,
      { name: "retention.ms", value: "60000", configOperation: SET },
      { name: "cleanup.policy", value: "compact", configOperation: APPEND },
    );
    expect(await shown(TOPIC, topic, "retention.ms")).toMatchObject({
      value: "60000",
      source: FROM_TOPIC,
    });
    expect((await shown(TOPIC, topic, "cleanup.policy"))?.value).toBe("delete,compact");
    await alter(TOPIC, topic, {
      name: "cleanup.policy",
      value: "compact",
      configOperation: SUBTRACT,
    });
    expect((await shown(TOPIC, topic, "cleanup.policy"))?.value).toBe("delete");
  });
});
