import { getMeProcedure } from "./account/get-me.ts";
import { createApiKeyProcedure } from "./api-key/create-api-key.ts";
import { deleteApiKeyProcedure } from "./api-key/delete-api-key.ts";
import { listApiKeysProcedure } from "./api-key/list-api-keys.ts";
import { getCatchUpProcedure } from "./catch-up/get-catch-up.ts";
import { createClusterProcedure } from "./cluster/create-cluster.ts";
import { deleteClusterProcedure } from "./cluster/delete-cluster.ts";
import { getClusterProcedure } from "./cluster/get-cluster.ts";
import { listClustersProcedure } from "./cluster/list-clusters.ts";
import { listConsumerGroupsProcedure } from "./consumer-group/list-consumer-groups.ts";
import { listEnvironmentsProcedure } from "./environment/list-environments.ts";
import { queryMetricsProcedure } from "./metrics/query-metrics.ts";
import { getOperationProcedure } from "./operation/get-operation.ts";
import { listOperationsProcedure } from "./operation/list-operations.ts";
import { watchOperationProcedure } from "./operation/watch-operation.ts";
import { createCallerFactory, router } from "./procedure.ts";
import { createTopicProcedure } from "./topic/create-topic.ts";
import { deleteTopicProcedure } from "./topic/delete-topic.ts";
import { listTopicsProcedure } from "./topic/list-topics.ts";
import { getTuningProcedure } from "./tuning/get-tuning.ts";
import { listTuningChangesProcedure } from "./tuning/list-tuning-changes.ts";
import { updateTuningProcedure } from "./tuning/update-tuning.ts";

/** Every procedure at the name of its contract. */
export const appRouter = router({
  account: router({ me: getMeProcedure }),
  apiKey: router({
    create: createApiKeyProcedure,
    list: listApiKeysProcedure,
    delete: deleteApiKeyProcedure,
  }),
  catchUp: router({ get: getCatchUpProcedure }),
  cluster: router({
    create: createClusterProcedure,
    list: listClustersProcedure,
    get: getClusterProcedure,
    delete: deleteClusterProcedure,
  }),
  consumerGroup: router({ list: listConsumerGroupsProcedure }),
  environment: router({ list: listEnvironmentsProcedure }),
  metrics: router({ query: queryMetricsProcedure }),
  operation: router({
    get: getOperationProcedure,
    list: listOperationsProcedure,
    watch: watchOperationProcedure,
  }),
  topic: router({
    create: createTopicProcedure,
    list: listTopicsProcedure,
    delete: deleteTopicProcedure,
  }),
  tuning: router({
    get: getTuningProcedure,
    update: updateTuningProcedure,
    history: listTuningChangesProcedure,
  }),
});

export type AppRouter = typeof appRouter;

/** Calls procedures within this process; throws what they throw. */
export const createCaller = createCallerFactory(appRouter);
