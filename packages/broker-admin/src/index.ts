export { BrokerError, type BrokerErrorCode } from "./broker-error.ts";
export { BrokerHttp } from "./broker-http.ts";
export type { BrokerRecords, StreamedRecordItem } from "./broker-records.ts";
export type { BrokerSetting, BrokerSettings } from "./broker-setting.ts";
export type { CatchUpAnswer } from "./catch-up.ts";
export { KafkaAdmin, type TopicConfigChanges, withKafkaAdmin } from "./kafka-admin.ts";
export type { KafkaAddress, KafkaSignIn } from "./kafka-client.ts";
export type {
  ProduceAnswer,
  ProduceRequest,
  RecordBudget,
  RecordItem,
  RecordPageAnswer,
  RecordSelection,
} from "./record-answer.ts";
export { smokeCheck } from "./smoke-check.ts";
