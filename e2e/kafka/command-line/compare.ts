/** Runs the command-line tools against Millrace and Apache Kafka, and gives the lines in which their outputs differ. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ApacheKafka } from "../apache-kafka.ts";
import { PEERS, type Peer, PlainBroker } from "../plain-broker.ts";
import { CASES, type Case } from "./cases.ts";
import { type ToolResult, Tools } from "./tools.ts";

const READ_TRIES_MAX = 4;
const READ_WAIT_MS = 400;
const SHOWN_MAX = 240;

/** A line that only one of both has, or its exit status. */
export interface LineDifference {
  step: string;
  only: Peer;
  line: string;
}

/** In patterns `*` stands for any text; what is left out is anything. */
interface Known {
  step: string;
  only?: Peer;
  line?: string;
  reason: string;
}

export interface ToolsComparison {
  steps: number;
  unknown: LineDifference[];
  known: number;
  /** Entries that no difference has needed. */
  unused: Known[];
}

export interface CompareOptions {
  jars: string;
  /** Of all parts, those with these names. */
  parts?: string[];
  onProgress?: (line: string) => void;
}

type Brokers = Record<Peer, { bootstrap: string; remove(): Promise<void> }>;

export async function compareTools(options: CompareOptions): Promise<ToolsComparison> {
  const folder = mkdtempSync(join(tmpdir(), "millrace-tools-"));
  const tools: Record<Peer, Tools> = {
    millrace: new Tools(options.jars),
    kafka: new Tools(options.jars),
  };
  const brokers: Partial<Brokers> = {};
  try {
    await startBrokers(brokers);
    const found: LineDifference[] = [];
    let steps = 0;
    for (const [part, cases] of Object.entries(CASES)) {
      if (options.parts && !options.parts.includes(part)) continue;
      const started = performance.now();
      for (const one of cases) {
        steps++;
        found.push(...(await compareCase(one, tools, brokers as Brokers, folder)));
      }
      const seconds = ((performance.now() - started) / 1_000).toFixed(0);
      options.onProgress?.(`${part}: ${cases.length} steps, ${seconds} s`);
    }
    return { steps, ...sortKnown(found) };
  } finally {
    for (const one of Object.values(tools)) await one.end();
    for (const broker of Object.values(brokers)) await broker.remove();
    rmSync(folder, { recursive: true });
  }
}

async function startBrokers(brokers: Partial<Brokers>): Promise<void> {
  const further = [
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
    "allow.everyone.if.no.acl.found=true",
  ];
  const millrace = new PlainBroker({ further });
  brokers.millrace = millrace;
  await millrace.create();
  const kafka = new ApacheKafka({ further: further.slice(2) });
  brokers.kafka = { bootstrap: "", remove: () => kafka.remove() };
  await kafka.create();
  brokers.kafka = { bootstrap: kafka.bootstrap("PLAINTEXT"), remove: () => kafka.remove() };
}

async function compareCase(
  one: Case,
  tools: Record<Peer, Tools>,
  brokers: Brokers,
  folder: string,
): Promise<LineDifference[]> {
  for (let tries = 1; ; tries++) {
    const [millrace, kafka] = await Promise.all(
      PEERS.map((peer) => outputOf(one, peer, tools[peer], brokers[peer].bootstrap, folder)),
    );
    const found = one.prepares
      ? []
      : [
          ...onlyIn("millrace", millrace ?? [], kafka ?? []),
          ...onlyIn("kafka", kafka ?? [], millrace ?? []),
        ];
    if (found.length === 0 || !one.reads || tries === READ_TRIES_MAX) {
      return found.map((difference) => ({ step: one.name, ...difference }));
    }
    await sleep(READ_WAIT_MS);
  }
}

async function outputOf(
  one: Case,
  peer: Peer,
  tools: Tools,
  bootstrap: string,
  folder: string,
): Promise<string[]> {
  const file = (content: string) => {
    const path = join(folder, `${peer}.txt`);
    writeFileSync(path, content);
    return path;
  };
  const result = await tools.carryOut(one.command(bootstrap, file));
  // Two brokers of which nothing was learned would be equal.
  const isCarriedOut = one.prepares ? result.exit === 0 : result.exit >= 0;
  if (!isCarriedOut) {
    throw new Error(`${peer}: ${one.name}: exit ${result.exit}: ${result.out}${result.err}`);
  }
  return linesOf(result, one.removes, bootstrap);
}

/** Sorted lines without what differs between any two runs. */
function linesOf({ exit, out, err }: ToolResult, removes: RegExp[], bootstrap: string): string[] {
  let text = `${out}\n${err}`;
  for (const [pattern, name] of [
    [new RegExp(bootstrap.replace(".", "\\."), "g"), "<address>"],
    [new RegExp(`(?<!\\d)${bootstrap.split(":")[1]}(?!\\d)`, "g"), "<port>"],
    [/\/?\b(127\.0\.0\.1|localhost)\b/g, "<host>"],
    [/[0-9a-f]{8}-[0-9a-f-]{27}/g, "<uuid>"],
    [/console-(share-)?consumer-\d+/g, "<console>"],
    // Not names of APIs that are as long.
    [/(?<![\w-])(?!([A-Z][a-z]+)+\b)[\w-]{22}(?![\w-])/g, "<id>"],
    // Kafka sets it for the whole cluster where it formats its storage.
    [/^\s*min\.insync\.replicas=1 .*$|\bmin\.insync\.replicas=1,?/gm, ""],
    [/\b1[678]\d{11}\b/g, "<time>"],
    [/\[?20\d\d-\d\d-\d\d[T ][\d:.,]+Z?\]?/g, "<time>"],
    [/"logDir":"[^"]+"|\/tmp\/[^\s",]+/g, "<path>"],
    [/^\s+at .*$|^\s+\.\.\. \d+ more$/gm, ""],
    ...removes.map((one) => [one, one.source.startsWith("^") ? "" : "<…>"] as const),
    // After the numbers that a step removes.
    [/[ \t]+/g, " "],
  ] as const) {
    text = text.replaceAll(pattern, name);
  }
  const lines = text.split("\n").map((line) => line.trim());
  return [`(exit ${exit})`, ...lines.filter((line) => line !== "").sort()];
}

/** The lines that are more often in one than in the other. */
function onlyIn(peer: Peer, ours: string[], theirs: string[]): { only: Peer; line: string }[] {
  const left = [...theirs];
  return ours
    .filter((line) => {
      const at = left.indexOf(line);
      if (at >= 0) left.splice(at, 1);
      return at < 0;
    })
    .map((line) => ({ only: peer, line: line.slice(0, SHOWN_MAX) }));
}

function sortKnown(found: LineDifference[]): Omit<ToolsComparison, "steps"> {
  const file = join(import.meta.dirname, "known-differences.json");
  const list = JSON.parse(readFileSync(file, "utf8")) as Known[];
  const used = new Set<Known>();
  const unknown = found.filter((difference) => {
    const known = list.find((one) =>
      (["step", "only", "line"] as const).every((field) => {
        const pattern = one[field];
        return pattern === undefined || matches(pattern, difference[field]);
      }),
    );
    if (known !== undefined) used.add(known);
    return known === undefined;
  });
  const unused = list.filter((one) => !used.has(one));
  return { unknown, unused, known: found.length - unknown.length };
}

function matches(pattern: string, text: string): boolean {
  const literal = pattern.split("*").map((part) => part.replaceAll(/[.[\](){}?+^$|\\/]/g, "\\$&"));
  return new RegExp(`^${literal.join(".*")}$`, "s").test(text);
}
