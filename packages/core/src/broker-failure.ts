import { BrokerError } from "@millrace/broker-admin";
import { DomainError, INITIAL_CLUSTER_USER } from "@millrace/domain";

const OTHER_VERSION = "It runs a different version than this installation; restart it.";

/** Runs a call to a broker and turns its failures into ours. `name` is the topic or user that the call is about. */
export async function atBroker<T>(name: string | undefined, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof BrokerError) throw toDomainError(error, name);
    throw error;
  }
}

function toDomainError(error: BrokerError, name: string | undefined): DomainError {
  switch (error.code) {
    case "topic_exists":
      return new DomainError("topic_name_taken", `A topic named "${name}" already exists.`, {
        remedy: "Choose another name.",
        fields: [
          { pointer: "/name", code: "taken", message: "is used by another topic of this cluster" },
        ],
        cause: error,
      });
    case "topic_not_found":
      return noneNamed("topic", name, error);
    case "group_not_found":
      return noneNamed("consumer group", name, error);
    case "authorization_off":
      return new DomainError("not_supported", "This cluster does not check ACLs.", {
        remedy: "Its broker has no authorizer: every client may do everything.",
        cause: error,
      });
    case "user_not_found":
      return noneNamed("user", name, error);
    case "invalid_user":
    case "invalid_topic_name":
      return invalid("/name", error);
    case "invalid_partitions":
      return invalid("/partitions", error);
    case "invalid_request":
      return invalid("", error);
    case "invalid_config":
      return invalid("/configs", error);
    case "timeout":
    case "busy":
    case "unreachable":
    case "not_ready":
    case "temporarily_failed":
      return unavailable(error.code, error);
    case "request_too_large":
      return new DomainError("payload_too_large", "The request is too large for the broker.", {
        remedy: "Send several smaller requests.",
        cause: error,
      });
    case "unauthorized":
      return new DomainError("broker_failed", "The broker did not accept the control plane.", {
        remedy: "Ask the installation's operator to restart the cluster's broker.",
        cause: error,
      });
    case "unsupported":
      return new DomainError("broker_failed", "The broker does not support this request.", {
        remedy: OTHER_VERSION,
        cause: error,
      });
    case "malformed_answer":
      return new DomainError("broker_failed", "The broker's answer cannot be read.", {
        remedy: OTHER_VERSION,
        cause: error,
      });
    case "refused":
      return new DomainError("broker_failed", "The broker rejected the request.", {
        cause: error,
      });
    default:
      return new DomainError("internal", "The request to the broker failed.", {
        cause: error,
      });
  }
}

/** `not_found` for what a cluster has by name. */
export function noneNamed(
  kind: "topic" | "consumer group" | "user",
  name: string | undefined,
  cause?: BrokerError,
): DomainError {
  const isAdmin = kind === "user" && name === INITIAL_CLUSTER_USER;
  return new DomainError("not_found", `There is no ${kind} ${name}.`, {
    remedy: isAdmin
      ? `Create a user named ${INITIAL_CLUSTER_USER}: it is a super user of the cluster again.`
      : `Check the name: the list of the cluster's ${kind}s has all of them.`,
    cause,
  });
}

const UNAVAILABLE = {
  timeout: [
    "The broker did not answer in time.",
    "It may have carried out the request: check before you repeat a change.",
  ],
  busy: ["The broker has too many requests.", "Try again in a few seconds."],
  unreachable: [
    "The broker does not respond.",
    "Try again in a few seconds. The cluster's status says why its broker does not serve.",
  ],
  not_ready: ["The broker is starting.", "Try again in a few seconds."],
  temporarily_failed: [
    "The broker cannot carry out the request at the moment.",
    "Try again in a few seconds. If it persists, see the cluster's status.",
  ],
} as const;

function unavailable(code: keyof typeof UNAVAILABLE, cause: BrokerError): DomainError {
  const [text, remedy] = UNAVAILABLE[code];
  const { kafkaError } = cause;
  const named = code === "temporarily_failed" && kafkaError !== undefined;
  const message = named ? `${text.slice(0, -1)}: ${kafkaError}.` : text;
  const retryAfterSeconds = cause.retryAfterSeconds ?? 3;
  return new DomainError("broker_unavailable", message, { remedy, retryAfterSeconds, cause });
}

function invalid(pointer: string, error: BrokerError): DomainError {
  return new DomainError("validation_failed", `The broker rejected this: ${error.message}.`, {
    fields: [{ pointer, code: error.code, message: error.message }],
    cause: error,
  });
}
