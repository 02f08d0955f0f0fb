export { BrokerError, type BrokerErrorCode } from "./broker-error.ts";
export { BrokerHttp, type BrokerHttpOptions, type BrokerStatus } from "./broker-http.ts";
export type { BrokerSetting, BrokerSettings } from "./broker-setting.ts";
export type { CatchUpAnswer } from "./catch-up.ts";
export {
  type KafkaAddress,
  KafkaAdmin,
  type NewTopic,
  type TopicConfigChanges,
  withKafkaAdmin,
} from "./kafka-admin.ts";
export { MalformedMetrics, type MetricSample, parsePrometheusText } from "./prometheus-text.ts";
export { smokeCheck } from "./smoke-check.ts";
