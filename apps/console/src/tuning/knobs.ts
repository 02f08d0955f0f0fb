/** What the knobs are called and what they do, in the words of this page. */
import { TUNING_KNOBS, type TuningKnob, tuningUnit } from "@millrace/domain";
import { exactly } from "../format/amount.ts";

export interface KnobWords {
  title: string;
  /** What turning it up buys and costs. */
  text: string;
}

export interface KnobGroup {
  title: string;
  text: string;
  knobs: readonly TuningKnob[];
}

export const KNOB_WORDS: Record<TuningKnob, KnobWords> = {
  block_cache_bytes: {
    title: "Block cache",
    text: "Holds blocks read from object storage until all lagging consumers have read them. A larger cache serves more of them in parallel.",
  },
  prefetch_max_bytes: {
    title: "Prefetch window",
    text: "How far the broker may read ahead of a consumer. A larger window hides object storage latency and uses more of the block cache.",
  },
  ingress_baseline_bytes_per_second: {
    title: "Ingress baseline",
    text: "Limits data received, including reads from object storage. When it is reached, catch-up reads and prefetch wait first.",
  },
  egress_baseline_bytes_per_second: {
    title: "Egress baseline",
    text: "Limits data sent, including uploads. When it is reached, uploads and tail reads go first, then catch-up reads.",
  },
  wal_cache_bytes: {
    title: "Log cache",
    text: "Holds the newest records for consumers that are up to date, and records waiting for upload.",
  },
  upload_threshold_bytes: {
    title: "Upload threshold",
    text: "Amount of data that starts an upload. Larger objects need fewer requests; smaller ones reach object storage sooner.",
  },
};

export const KNOB_GROUPS: readonly KnobGroup[] = [
  {
    title: "Read cache",
    text: "For consumers that read data no longer in memory.",
    knobs: ["block_cache_bytes", "prefetch_max_bytes"],
  },
  {
    title: "Network",
    text: "Prevents catch-up reads from slowing down producers.",
    knobs: ["ingress_baseline_bytes_per_second", "egress_baseline_bytes_per_second"],
  },
  {
    title: "Write cache",
    text: "Between the write-ahead log and object storage.",
    knobs: ["wal_cache_bytes", "upload_threshold_bytes"],
  },
];

/** Knobs whose bounds move with each other: a change of both is validated as a whole. */
export const COUPLED: Partial<Record<TuningKnob, readonly TuningKnob[]>> = {
  block_cache_bytes: ["wal_cache_bytes"],
  wal_cache_bytes: ["block_cache_bytes", "upload_threshold_bytes"],
  upload_threshold_bytes: ["wal_cache_bytes"],
};

const KNOB_NAMES = new RegExp(`\\b(?:${TUNING_KNOBS.join("|")})\\b`, "g");
/** Amounts from a kibibyte on; shorter numbers are percentages, versions and the like. */
const LONG_NUMBERS = /\b\d{4,16}\b/g;

/** The API's words with the page's names of knobs, and with amounts that people can read. */
export function inWords(text: string, knob: TuningKnob): string {
  const unit = tuningUnit(knob);
  return text
    .replace(KNOB_NAMES, (name) => `“${KNOB_WORDS[name as TuningKnob].title}”`)
    .replace(LONG_NUMBERS, (digits) => exactly(unit, Number(digits)));
}

/** Where 0 is no amount, but switches something off: what that is called. */
export const ZERO_WORDS: Partial<Record<TuningKnob, string>> = {
  prefetch_max_bytes: "No prefetch",
  ingress_baseline_bytes_per_second: "Unlimited",
  egress_baseline_bytes_per_second: "Unlimited",
};

/** A value of a knob: `128 MiB`, or what is switched off. */
export function valueText(knob: TuningKnob, value: number): string {
  return (value === 0 && ZERO_WORDS[knob]) || exactly(tuningUnit(knob), value);
}
