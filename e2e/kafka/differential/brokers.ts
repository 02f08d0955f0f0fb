/** Runs the scenarios against Millrace and Apache Kafka side by side. */
import { protocolAPIsById } from "@platformatic/kafka";
import type { Json } from "../../product.ts";
import { PEERS, type Peer, type RunningBroker, startBroker } from "../plain-broker.ts";
import { randomWalk, seededChance } from "./random-walk.ts";
import { SCENARIOS } from "./scenarios/index.ts";
import { type Age, type Difference, Scene } from "./scene.ts";
import { Wire } from "./wire.ts";

/** Of each seed's random walk. */
export const STEPS_DEFAULT = 150;

export interface ComparisonOptions {
  jars: string;
  seeds: number[];
  /** Of all scenarios, those whose names begin so. */
  only?: string;
  steps?: number;
  onProgress?: (line: string) => void;
}

/** Nothing is cleaned up at one broker earlier than at the other. */
const SETTINGS = ["offsets.retention.check.interval.ms=86400000"];

/** Every difference, once. @throws Error where a request cannot be built, or a broker does not serve. */
export async function compareBrokers(options: ComparisonOptions): Promise<Difference[]> {
  const { only = "" } = options;
  if (!Object.keys(SCENARIOS).some((name) => name.startsWith(only))) {
    throw new Error(`no scenario's name begins with ${only}: ${Object.keys(SCENARIOS).join(", ")}`);
  }
  const brokers: Partial<Record<Peer, RunningBroker>> = {};
  const wire = new Wire(options.jars);
  try {
    for (const peer of PEERS) brokers[peer] = await startBroker(peer, ...SETTINGS);
    const addresses = {
      millrace: brokers.millrace?.bootstrap ?? "",
      kafka: brokers.kafka?.bootstrap ?? "",
    };
    const found = new Map<string, Difference>();
    const ranges = await commonVersions(wire, addresses, found);
    const scene = (age: Age, prefix: string) =>
      new Scene(wire, addresses, ranges, found, { age, prefix });
    await runScenarios(scene("newest", "newest."), options);
    await runScenarios(scene("oldest", "oldest."), options);
    for (const seed of options.seeds) {
      const walk = scene(seededChance(seed), `seed${seed}.`);
      if (options.only === undefined) await randomWalk(walk, seed, options.steps ?? STEPS_DEFAULT);
      await runScenarios(scene(seededChance(seed), `mixed${seed}.`), options);
      options.onProgress?.(`seed ${seed}: ${found.size} differences`);
    }
    return [...found.values()];
  } finally {
    await wire.end();
    for (const broker of Object.values(brokers)) await broker?.remove();
  }
}

async function runScenarios(
  scene: Scene,
  { only = "", onProgress }: ComparisonOptions,
): Promise<void> {
  for (const [name, play] of Object.entries(SCENARIOS)) {
    if (!name.startsWith(only)) continue;
    scene.scenario = name;
    const started = performance.now();
    await play(scene);
    const seconds = ((performance.now() - started) / 1_000).toFixed(1);
    onProgress?.(`${scene.prefix} ${name}: ${scene.requests} requests so far, ${seconds} s`);
  }
}

/** The versions that both serve; where they differ, that is a difference. */
async function commonVersions(
  wire: Wire,
  addresses: Record<Peer, string>,
  found: Map<string, Difference>,
): Promise<Map<string, [number, number]>> {
  const scene = new Scene(wire, addresses, new Map([["ApiVersions", [3, 3]]]), found, {
    age: "newest",
    prefix: "versions.",
  });
  scene.scenario = "versions";
  const client = { clientSoftwareName: "differential", clientSoftwareVersion: "1" };
  const answers = await scene.send("versions", "ApiVersions", client, { unchecked: true });
  const listed = (peer: Peer) =>
    new Map<number, Json>(answers[peer].apiKeys.map((one: Json) => [one.apiKey, one]));
  const [millrace, kafka] = [listed("millrace"), listed("kafka")];
  const ranges = new Map<string, [number, number]>();
  const shown = (one: Json) =>
    one === undefined ? "(absent)" : `${one.minVersion}-${one.maxVersion}`;
  for (const key of new Set([...millrace.keys(), ...kafka.keys()])) {
    const [ours, theirs] = [millrace.get(key), kafka.get(key)];
    const api = API_NAMES[key] ?? `API ${key}`;
    if (shown(ours) !== shown(theirs)) {
      scene.note(
        "advertised",
        api,
        { path: "(versions)", millrace: shown(ours), kafka: shown(theirs) },
        3,
      );
    }
    if (ours === undefined || theirs === undefined) continue;
    const oldest = Math.max(
      ours.minVersion,
      theirs.minVersion,
      api === "Produce" ? PRODUCE_MIN : 0,
    );
    ranges.set(api, [oldest, Math.min(ours.maxVersion, theirs.maxVersion)]);
  }
  return ranges;
}

/** Older ones are advertised only. */
const PRODUCE_MIN = 3;

/** By API key, as the protocol's message classes are called. */
const API_NAMES: Record<number, string> = { ...protocolAPIsById, 74: "ListConfigResources" };
