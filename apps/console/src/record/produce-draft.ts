/** A record that somebody is about to write: as it is typed, and as the API is asked. */
import type { KafkaRecord, ProduceRecordsInput } from "@millrace/contract";
import type { BYTE_ENCODINGS } from "@millrace/domain";

type Encoding = (typeof BYTE_ENCODINGS)[number];
export type ValueKind = Encoding | "json" | "tombstone";
export type KeyKind = Encoding | "none";
export type HeaderKind = Encoding | "null";

export interface HeaderDraft {
  readonly name: string;
  readonly kind: HeaderKind;
  readonly value: string;
}

export interface ProduceDraft {
  /** Empty: chosen by the key, or by the partitioner. */
  readonly partition: string;
  readonly keyKind: KeyKind;
  readonly key: string;
  readonly valueKind: ValueKind;
  readonly value: string;
  readonly headers: readonly HeaderDraft[];
}

export const NEW_RECORD: ProduceDraft = {
  partition: "",
  keyKind: "none",
  key: "",
  valueKind: "text",
  value: "",
  headers: [],
};

export interface ProduceErrors {
  readonly key?: string;
  readonly value?: string;
  readonly headers?: string;
}

/** What is wrong with the draft; empty where nothing is. */
export function produceErrors(draft: ProduceDraft): ProduceErrors {
  const key = draft.keyKind === "none" ? undefined : bytesError(draft.keyKind, draft.key);
  const value = valueError(draft);
  const headers = headersError(draft);
  return {
    ...(key !== undefined && { key }),
    ...(value !== undefined && { value }),
    ...(headers !== undefined && { headers }),
  };
}

/** What the API is asked to write. Only for a draft without errors. */
export function producedOf(draft: ProduceDraft): ProduceRecordsInput["records"][number] {
  const { partition, keyKind, key, valueKind, value, headers } = draft;
  return {
    ...(partition !== "" && { partition: Number(partition) }),
    key: keyKind === "none" ? null : bytesOf(keyKind, key),
    value: valueKind === "tombstone" ? null : bytesOf(valueKind, value),
    headers: headers.map(({ name, kind, value: given }) => ({
      name,
      value: kind === "null" ? null : bytesOf(kind, given),
    })),
  };
}

/** Why no copy of the record can be made; undefined where one can: half of it would be another one. */
export function copyObstacle({
  key,
  value,
  headers,
  headers_truncated,
}: KafkaRecord): string | undefined {
  if (headers_truncated) return "The record has more headers than can be copied.";
  const isCut = [key, value, ...headers.map((each) => each.value)].some((each) => each?.truncated);
  return isCut ? "Load all of the record to copy it." : undefined;
}

/** A draft like a record that exists and has no obstacle, for its key's partition. */
export function draftOfRecord({ key, value, headers }: KafkaRecord): ProduceDraft {
  return {
    ...NEW_RECORD,
    ...(key !== null && { keyKind: key.encoding, key: key.data }),
    ...(value === null
      ? { valueKind: "tombstone" }
      : { valueKind: value.encoding, value: value.data }),
    headers: headers.map((header) => ({
      name: header.name,
      kind: header.value?.encoding ?? "null",
      value: header.value?.data ?? "",
    })),
  };
}

function bytesOf(kind: Encoding | "json", text: string) {
  const encoding = kind === "json" ? "text" : kind;
  return { encoding, data: encoding === "text" ? text : packed(text) };
}

/** Line breaks and blanks of pasted base64 and hex mean nothing. */
function packed(text: string): string {
  return text.replaceAll(/\s/g, "");
}

function valueError({ valueKind, value }: ProduceDraft): string | undefined {
  if (valueKind === "tombstone") return undefined;
  if (valueKind !== "json") return bytesError(valueKind, value);
  try {
    JSON.parse(value);
    return undefined;
  } catch (error) {
    return `Not valid JSON: ${error instanceof Error ? error.message : "check its syntax"}`;
  }
}

function headersError({ headers }: ProduceDraft): string | undefined {
  if (headers.some(({ name }) => name === "")) {
    return "Enter a name for each header, or remove it";
  }
  return headers
    .map(({ kind, value }) => (kind === "null" ? undefined : bytesError(kind, value)))
    .find((each) => each !== undefined);
}

function bytesError(kind: Encoding, text: string): string | undefined {
  const data = packed(text);
  if (kind === "hex" && !/^([0-9a-f]{2})*$/i.test(data)) return "Enter two hex digits per byte";
  if (kind === "base64" && (data.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(data))) {
    return "Enter base64 with its padding";
  }
  return undefined;
}
