import { getMe } from "./account/get-me.ts";
import { createApiKey } from "./api-key/create-api-key.ts";
import { deleteApiKey } from "./api-key/delete-api-key.ts";
import { listApiKeys } from "./api-key/list-api-keys.ts";
import { getCatchUp } from "./catch-up/get-catch-up.ts";
import { createCluster } from "./cluster/create-cluster.ts";
import { deleteCluster } from "./cluster/delete-cluster.ts";
import { getCluster } from "./cluster/get-cluster.ts";
import { listClusters } from "./cluster/list-clusters.ts";
import { listConsumerGroups } from "./consumer-group/list-consumer-groups.ts";
import type { Contract } from "./contract.ts";
import { listEnvironments } from "./environment/list-environments.ts";
import { queryMetrics } from "./metrics/query-metrics.ts";
import { getOperation } from "./operation/get-operation.ts";
import { listOperations } from "./operation/list-operations.ts";
import { watchOperation } from "./operation/watch-operation.ts";
import { createTopic } from "./topic/create-topic.ts";
import { deleteTopic } from "./topic/delete-topic.ts";
import { listTopics } from "./topic/list-topics.ts";
import { getTuning } from "./tuning/get-tuning.ts";
import { listTuningChanges } from "./tuning/list-tuning-changes.ts";
import { updateTuning } from "./tuning/update-tuning.ts";

/** Every operation of the API, in the order of the reference page. */
export const contracts: readonly Contract[] = [
  createCluster,
  listClusters,
  getCluster,
  deleteCluster,
  listOperations,
  getOperation,
  watchOperation,
  createTopic,
  listTopics,
  deleteTopic,
  listConsumerGroups,
  getCatchUp,
  getTuning,
  updateTuning,
  listTuningChanges,
  queryMetrics,
  listEnvironments,
  createApiKey,
  listApiKeys,
  deleteApiKey,
  getMe,
];
