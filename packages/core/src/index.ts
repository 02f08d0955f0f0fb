export { type AccountView, getAccount } from "./account/get-account.ts";
export { createApiKey } from "./api-key/create-api-key.ts";
export { deleteApiKey } from "./api-key/delete-api-key.ts";
export { listApiKeys } from "./api-key/list-api-keys.ts";
export {
  type BrokerHttpAccess,
  type BrokerHttpPort,
  brokerHttpBy,
} from "./broker-http-access.ts";
export { getCatchUp } from "./catch-up/get-catch-up.ts";
export { deploymentOf } from "./cluster/cluster-deployment.ts";
export { clusterEtag } from "./cluster/cluster-etag.ts";
export { reportDegraded, reportRecovered } from "./cluster/cluster-health.ts";
export { createCluster } from "./cluster/create-cluster.ts";
export { deleteCluster } from "./cluster/delete-cluster.ts";
export { type ClusterView, getCluster } from "./cluster/get-cluster.ts";
export { listClusters } from "./cluster/list-clusters.ts";
export { listConsumerGroups } from "./consumer-group/list-consumer-groups.ts";
export {
  type Core,
  type CoreOptions,
  createCore,
  type KafkaAccess,
  type KafkaAdminPort,
} from "./core.ts";
export {
  LEASE_MS_DEFAULT,
  type RunOptions,
  type RunResult,
  runOperation,
} from "./engine/run-operation.ts";
export type { WorkerTools } from "./engine/worker-tools.ts";
export { listEnvironments } from "./environment/list-environments.ts";
export type { Log } from "./log.ts";
export { type ClusterMetrics, queryClusterMetrics } from "./metrics/query-cluster-metrics.ts";
export { getOperation } from "./operation/get-operation.ts";
export { listOperations } from "./operation/list-operations.ts";
export { watchOperation } from "./operation/watch-operation.ts";
export type { PageResult } from "./page.ts";
export {
  type BootstrapAnswer,
  type BootstrapInput,
  bootstrapTenant,
} from "./tenant/bootstrap-tenant.ts";
export { createTopic } from "./topic/create-topic.ts";
export { deleteTopic } from "./topic/delete-topic.ts";
export { listTopics } from "./topic/list-topics.ts";
export { type ApplyResult, applyTuning, type TuningTools } from "./tuning/apply-tuning.ts";
export { getTuning } from "./tuning/get-tuning.ts";
export { listTuningChanges, type TuningChangeView } from "./tuning/list-tuning-changes.ts";
export type { KnobView, TuningView } from "./tuning/tuning-view.ts";
export { updateTuning } from "./tuning/update-tuning.ts";
