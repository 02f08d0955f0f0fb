import { BrokerError } from "@millrace/broker-admin";
import {
  assertServing,
  type ClusterId,
  DomainError,
  type FieldError,
  isKafkaTopicName,
  type Principal,
  validationFailed,
} from "@millrace/domain";
import type { BrokerHttpPort } from "../broker-access.ts";
import { atBroker, noneNamed } from "../broker-failure.ts";
import { requireCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";

export interface TopicAddress {
  readonly clusterId: ClusterId;
  readonly topicName: string;
}

/** Which parameter a broker's refusal is about, where its name says so. */
const POINTERS: Readonly<Record<string, string>> = { OFFSET_OUT_OF_RANGE: "/offset" };

/**
 * Runs a call for the records of a tenant's topic, which may be an internal one. Throws `not_found`
 * also for a partition, `cluster_not_ready`, `validation_failed` where the broker refuses a
 * parameter, `payload_too_large`, `rate_limited`, `not_supported` where the broker
 * has records over HTTP disabled, `broker_unavailable`, `broker_failed`.
 */
export async function atTopic<T>(
  core: Core,
  principal: Principal,
  { clusterId, topicName }: TopicAddress,
  call: (records: BrokerHttpPort["records"]) => Promise<T>,
): Promise<T> {
  const cluster = await requireCluster(core, principal, clusterId);
  if (!isKafkaTopicName(topicName)) throw noneNamed("topic", topicName);
  assertServing(cluster);
  return atBroker(topicName, async () => {
    try {
      return await call((await core.brokerHttp(cluster)).records);
    } catch (error) {
      throw recordFailure(error) ?? error;
    }
  });
}

/** What calls for records alone can fail with; undefined for any other failure. */
export function recordFailure(error: unknown): DomainError | undefined {
  if (!(error instanceof BrokerError)) return undefined;
  const { code, said, retryAfterSeconds } = error;
  switch (code) {
    case "topic_not_found":
      // It may be the partition that does not exist: only the broker's words tell.
      return said === undefined
        ? undefined
        : new DomainError("not_found", sentence(said.replace(/^there is/, "There is")), {
            remedy: "Check the name and the partition: the list of the cluster's topics has all.",
            cause: error,
          });
    case "records_disabled":
      return new DomainError(
        "not_supported",
        capitalized(sentence(said ?? "this broker does not serve records over HTTP")),
        { cause: error },
      );
    case "invalid_request":
      return validationFailed([invalidParameter(error)], error);
    case "request_too_large":
      return new DomainError("payload_too_large", sentence(said ?? "The request is too large"), {
        remedy: "Send fewer or smaller records per request.",
        cause: error,
      });
    case "busy":
      return new DomainError("rate_limited", "The broker serves as many reads as it can.", {
        remedy: "Close other streams, or try again.",
        retryAfterSeconds: retryAfterSeconds ?? 1,
        cause: error,
      });
    default:
      return undefined;
  }
}

/** The broker's text names the parameter, as does the pointer. */
function invalidParameter({ code, said, kafkaError }: BrokerError): FieldError {
  const pointer = POINTERS[kafkaError ?? ""] ?? "";
  const text = said ?? "was rejected by the broker";
  const named = `${pointer.slice(1)} `;
  const message = text.startsWith(named) ? text.slice(named.length) : text;
  return { pointer, code: (kafkaError ?? code).toLowerCase(), message };
}

const capitalized = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** As the broker wrote it: it may begin with a topic's name, which has no other spelling. */
function sentence(words: string): string {
  return `${words.trim().replace(/\.$/, "")}.`;
}
