/** The API's stream of records as the browser reads it: no faster than it is asked to. */
import type { Problem, RecordStreamItem } from "@millrace/contract";
import { ApiFailure } from "../api/client.tsx";

export interface StreamAddress {
  readonly clusterId: string;
  readonly topic: string;
  /** Filters and the start, as the API names them. */
  readonly query: Readonly<Record<string, string | number | undefined>>;
}

/** Items until `signal` aborts, or the API ends the stream. Throws `ApiFailure`. */
export async function* streamRecords(
  { clusterId, topic, query }: StreamAddress,
  signal: AbortSignal,
): AsyncGenerator<RecordStreamItem, void, undefined> {
  const fields = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)]],
  );
  const path = `/v1/clusters/${encodeURIComponent(clusterId)}/topics/${encodeURIComponent(topic)}`;
  const response = await fetch(`${path}/records/stream?${new URLSearchParams(fields)}`, {
    headers: { accept: "application/x-ndjson" },
    cache: "no-store",
    signal,
  });
  if (!response.ok || response.body === null) throw new ApiFailure(await reasonOf(response));
  for await (const line of linesOf(response.body)) {
    const item = JSON.parse(line) as RecordStreamItem;
    if (item.error !== undefined) throw new ApiFailure(item.error.message);
    yield item;
  }
}

/** Lines of a body, however it was cut into chunks; the rest after the last line end is none. */
export async function* linesOf(
  body: ReadableStream<Uint8Array>,
): AsyncGenerator<string, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let tail = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (tail + decoder.decode(value, { stream: true })).split("\n");
      tail = lines.pop() ?? "";
      for (const line of lines) if (line !== "") yield line;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

async function reasonOf(response: Response): Promise<string> {
  const problem: Partial<Problem> = await response.json().catch(() => ({}));
  if (problem.detail === undefined) return "Cannot reach the API. Try again in a moment.";
  return problem.remedy === undefined ? problem.detail : `${problem.detail} ${problem.remedy}`;
}
