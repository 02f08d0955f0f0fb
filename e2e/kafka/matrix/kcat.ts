/** kcat, which is librdkafka: what its command line can do. */
import { execFileSync } from "node:child_process";
import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { runLines } from "../clients/client.ts";
import type { Capability } from "./capabilities.ts";

const kcat = process.env.MILLRACE_KCAT || "kcat";
const RECORDS = 10;
const WAIT_MS_MAX = 40_000;

export interface Where {
  bootstrap: string;
  topic: string;
  group: string;
}

export function kcatVersion(): string | undefined {
  return /librdkafka ([\d.]+)/.exec(execFileSync(kcat, ["-V"], { encoding: "utf8" }))?.[1];
}

/** Tries a capability. @returns the reason where kcat does not have it. */
export async function tryKcat(capability: Capability, where: Where): Promise<string | undefined> {
  if (capability === "transactions") return "not offered on its command line";
  if (capability === "admin") return "not offered on its command line";
  if (capability === "consumer group" || capability === "share group") {
    return "not in this version of librdkafka";
  }
  const codec = ["gzip", "snappy", "lz4", "zstd"].includes(capability) ? capability : "none";
  const idempotent = capability === "idempotent produce" ? ["-X", "enable.idempotence=true"] : [];
  await write(where, ["-z", codec, ...idempotent]);
  if (capability === "classic group") await share(where);
  else await read(where);
  return undefined;
}

async function write({ bootstrap, topic }: Where, further: string[]): Promise<void> {
  const values = Array.from({ length: RECORDS / 2 }, (_, at) => `v${at}\n`).join("");
  for (const partition of ["0", "1"]) {
    const args = [
      "-P",
      "-b",
      bootstrap,
      "-t",
      topic,
      "-p",
      partition,
      "-X",
      "acks=all",
      ...further,
    ];
    await runLines(kcat, args, { input: Readable.from([values]) });
  }
}

async function read({ bootstrap, topic }: Where): Promise<void> {
  let count = 0;
  const onLine = () => {
    count += 1;
  };
  await runLines(kcat, ["-C", "-b", bootstrap, "-t", topic, "-o", "beginning", "-e", "-q"], {
    onLine,
  });
  if (count !== RECORDS) throw new Error(`read ${count} records`);
}

/** kcat tells its assignment on its standard error; who has read what tells it as well. */
async function share({ bootstrap, topic, group }: Where): Promise<void> {
  const owned = [new Set<string>(), new Set<string>()];
  const read = new Set<string>();
  const ends = owned.map(() => new AbortController());
  const members = owned.map((partitions, at) =>
    runLines(
      "sh",
      // The shell joins what kcat complains to what it reads.
      [
        "-c",
        `exec "$0" "$@" 2>&1`,
        kcat,
        "-u",
        "-b",
        bootstrap,
        "-X",
        "session.timeout.ms=6000",
        "-X",
        "auto.offset.reset=earliest",
        "-f",
        "read %p %o\\n",
        "-G",
        group,
        topic,
      ],
      {
        signal: ends[at]?.signal as AbortSignal,
        onLine: (line) => {
          if (line.startsWith("read ")) read.add(line);
          if (line.includes("rebalanced")) {
            partitions.clear();
            if (line.includes("assigned")) {
              for (const [, number] of line.matchAll(/\[(\d+)\]/g)) partitions.add(number ?? "");
            }
          }
        },
      },
    ),
  );
  try {
    await until("a partition each", () => owned.every(({ size }) => size === 1));
    ends[1]?.abort();
    await members[1];
    await until("both partitions", () => owned[0]?.size === 2 && read.size === RECORDS);
  } finally {
    for (const end of ends) end.abort();
    await Promise.allSettled(members);
  }
}

async function until(what: string, holds: () => boolean): Promise<void> {
  for (let waited = 0; waited < WAIT_MS_MAX; waited += 100) {
    if (holds()) return;
    await sleep(100);
  }
  throw new Error(`${what}: not within ${WAIT_MS_MAX} ms`);
}
