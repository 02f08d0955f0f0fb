/** Every scenario, in the order of their run. */
import type { Scene } from "../scene.ts";
import { leaders, quotas, security, users } from "./administration.ts";
import { classicGroups, committedOffsets, consumerGroups, staticMembers } from "./groups.ts";
import { deleteRecords, fetchRecords, produceRecords } from "./records.ts";
import {
  alterConfigs,
  cluster,
  createTopics,
  deleteTopics,
  describeConfigs,
  metadata,
  partitions,
} from "./topics.ts";
import { producerIds, transactions, transactionsOfVersion2 } from "./transactions.ts";

export const SCENARIOS: Record<string, (scene: Scene) => Promise<void>> = {
  "create topics": createTopics,
  metadata,
  cluster,
  partitions,
  "delete topics": deleteTopics,
  "describe configs": describeConfigs,
  "alter configs": alterConfigs,
  produce: produceRecords,
  fetch: fetchRecords,
  "delete records": deleteRecords,
  "classic groups": classicGroups,
  "static members": staticMembers,
  "committed offsets": committedOffsets,
  "consumer groups": consumerGroups,
  "producer ids": producerIds,
  transactions,
  "transactions of version 2": transactionsOfVersion2,
  leaders,
  quotas,
  users,
  security,
};
