/**
 * The operation engine: accepts operations, carries them out step by step under a lease, and records
 * how they end. It knows the drivers and the database, and no use case.
 */
export { removeLeftTopics } from "./benchmark-topic.ts";
export { canonical } from "./canonical.ts";
export { readyCondition } from "./cluster-condition.ts";
export { deploymentAt, deploymentOf } from "./cluster-deployment.ts";
export { linkCredentialsIn } from "./link-credentials.ts";
export type { Log } from "./log.ts";
export {
  LEASE_MS_DEFAULT,
  type RunOptions,
  runOperation,
} from "./run-operation.ts";
export { enterPhase, startOperation } from "./start-operation.ts";
export { terraformStatesIn } from "./terraform-states.ts";
export { originBeforeChange, recordUnfinished } from "./unfinished-operation.ts";
export type { WorkerTools } from "./worker-tools.ts";
