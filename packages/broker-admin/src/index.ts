export { BrokerError, type BrokerErrorCode } from "./broker-error.ts";
export type { BrokerGroups } from "./broker-groups.ts";
export { BrokerHttp } from "./broker-http.ts";
export type { BrokerRecords, StreamedRecordItem } from "./broker-records.ts";
export type { BrokerSetting, BrokerSettings } from "./broker-setting.ts";
export type { BrokerTopics, NewTopic, TopicConfigChanges } from "./broker-topics.ts";
export type { CatchUpAnswer } from "./catch-up.ts";
export { openMetricsText, parseFamilies } from "./open-metrics.ts";
export type {
  ProduceAnswer,
  ProduceRequest,
  RecordBudget,
  RecordItem,
  RecordPageAnswer,
  RecordSelection,
} from "./record-answer.ts";
export { type ClusterHttp, clusterHttp } from "./several-brokers.ts";
export { smokeCheck } from "./smoke-check.ts";
