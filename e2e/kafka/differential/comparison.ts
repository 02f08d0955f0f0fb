/** Compares two responses field by field, without what differs between any two clusters. */
import { protocolErrorsCodesById } from "@platformatic/kafka";
import type { Json } from "../../product.ts";

/** Names of ids of one cluster, by the id. */
export type Names = Map<string, string>;

/** One field that differs. */
export interface FieldDifference {
  path: string;
  millrace: string;
  kafka: string;
}

/** Fields that tell the elements of an array apart, in this order. */
const KEYS = [
  "name",
  "topic",
  "topicName",
  "topicId",
  "partitionIndex",
  "partition",
  "partitionId",
  "resourceName",
  "groupId",
  "transactionalId",
  "memberId",
  "key",
  "nodeId",
  "brokerId",
  "apiKey",
  "user",
  "logDir",
  "entityType",
] as const;
const ZERO_UUID = "AAAAAAAAAAAAAAAAAAAAAA";
/** Times of the scenarios' own are older. */
const NOW_MIN_MS = Date.UTC(2020, 0);
/** Of ApiVersions: compared once, before all scenarios. */
const ADVERTISED = "apiKeys";
const ABSENT = "(absent)";
const TEXT_MAX = 160;

/** The fields in which the responses differ, with error codes by their names. */
export function differences(
  millrace: Json,
  kafka: Json,
  names: { millrace: Names; kafka: Names },
): FieldDifference[] {
  const found: FieldDifference[] = [];
  const ours = normalised("", millrace, names.millrace);
  compare("", ours, normalised("", kafka, names.kafka), found);
  return found;
}

function compare(path: string, millrace: Json, kafka: Json, found: FieldDifference[]): void {
  if (isObject(millrace) && isObject(kafka)) {
    // What else differs then follows from it.
    if (millrace.errorCode !== kafka.errorCode) {
      found.push({
        path: `${path}.errorCode`,
        millrace: shown(millrace.errorCode),
        kafka: shown(kafka.errorCode),
      });
      return;
    }
    for (const key of new Set([...Object.keys(millrace), ...Object.keys(kafka)])) {
      compare(path === "" ? key : `${path}.${key}`, millrace[key], kafka[key], found);
    }
    return;
  }
  if (Array.isArray(millrace) && Array.isArray(kafka)) {
    const [ours, theirs] = [keyed(path, millrace), keyed(path, kafka)];
    for (const key of new Set([...ours.keys(), ...theirs.keys()])) {
      compare(`${path}[${key}]`, ours.get(key), theirs.get(key), found);
    }
    return;
  }
  const [ours, theirs] = [shown(millrace), shown(kafka)];
  if (ours !== theirs) found.push({ path, millrace: ours, kafka: theirs });
}

/** Elements by the fields that tell them apart; where there are none, by their places. */
function keyed(path: string, elements: Json[]): Map<string, Json> {
  const byKey = new Map<string, Json>();
  const inOrder = /records$/.test(path)
    ? elements
    : elements.toSorted((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1));
  inOrder.forEach((element, place) => {
    const key = isObject(element) ? keyOf(element) : undefined;
    const name = key ?? String(place);
    byKey.set(byKey.has(name) ? `${name}#${place}` : name, element);
  });
  return byKey;
}

function keyOf(element: Json): string | undefined {
  for (const key of KEYS) {
    const value = element[key];
    if (value !== undefined && value !== null && value !== "" && value !== ZERO_UUID)
      return `${value}`;
  }
  return undefined;
}

function normalised(name: string, value: Json, names: Names): Json {
  if (Array.isArray(value)) return value.map((element) => normalised(name, element, names));
  if (isObject(value)) {
    return Object.fromEntries(
      Object.entries(value)
        .filter(([key]) => key !== ADVERTISED)
        .map(([key, field]) => [key, normalised(key, field, names)]),
    );
  }
  if (value === null) return null;
  const known = names.get(`${typeof value}:${value}`);
  if (known !== undefined) return known;
  return normalisedField(name, value);
}

function normalisedField(name: string, value: Json): Json {
  if (/errorCode$/i.test(name)) return `${value} ${protocolErrorsCodesById[value] ?? "NONE"}`;
  if (name === "throttleTimeMs") return "<time>";
  // Epochs begin at another number in Millrace.
  if (/leaderEpoch$/i.test(name) || name === "finalizedFeaturesEpoch")
    return value < 0 ? value : "<epoch>";
  if (name === "sessionId") return value === 0 ? 0 : "<session>";
  if (name === "host" || name === "clusterId" || name === "clientHost")
    return value === "" ? "" : "<address>";
  if (name === "port") return value < 0 ? value : "<port>";
  if (/(errorMessage|documentation)$/i.test(name)) return value === "" ? "" : "<text>";
  if (name === "producerId") return value < 0 ? value : "<producer>";
  if (/(topicId|^uuid)$/i.test(name)) return value === ZERO_UUID ? value : "<id>";
  if (/(memberId|leader)$/.test(name) && typeof value === "string")
    return value === "" ? "" : "<member>";
  if (/timestamp|Ms$/i.test(name) && value > NOW_MIN_MS) return "<time>";
  if (name === "logDir") return "<folder>";
  if (/Bytes$|^size$/.test(name)) return value < 0 ? value : "<bytes>";
  return value;
}

function shown(value: Json): string {
  if (value === undefined) return ABSENT;
  if (typeof value === "string") return value.slice(0, TEXT_MAX);
  return JSON.stringify(value).slice(0, TEXT_MAX);
}

function isObject(value: Json): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
