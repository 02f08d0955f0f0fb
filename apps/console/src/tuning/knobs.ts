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
    text: "Holds blocks read back from object storage until every consumer that is behind has had them. More room lets more of them read side by side.",
  },
  prefetch_max_bytes: {
    title: "Prefetch window",
    text: "How far the broker may read ahead of one consumer. A larger window hides the latency of object storage; it takes its room from the block cache.",
  },
  ingress_baseline_bytes_per_second: {
    title: "Ingress baseline",
    text: "What the broker may take in, reads from object storage included. Where it is short, catch-up reads and prefetch wait first.",
  },
  egress_baseline_bytes_per_second: {
    title: "Egress baseline",
    text: "What the broker may send, uploads included. Where it is short, uploads and tail reads go first, catch-up reads after them.",
  },
  wal_cache_bytes: {
    title: "Log cache",
    text: "Holds the newest records, so that consumers at the tail read from memory, and those that wait for their upload.",
  },
  upload_threshold_bytes: {
    title: "Upload threshold",
    text: "How much gathers before it is uploaded. Larger objects need fewer requests; smaller ones are in object storage sooner.",
  },
};

export const KNOB_GROUPS: readonly KnobGroup[] = [
  {
    title: "Read cache",
    text: "For consumers that read what is no longer in memory.",
    knobs: ["block_cache_bytes", "prefetch_max_bytes"],
  },
  {
    title: "Network",
    text: "Keeps catch-up reads from crowding out producers.",
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
  ingress_baseline_bytes_per_second: "No bound",
  egress_baseline_bytes_per_second: "No bound",
};

/** A value of a knob: `128 MiB`, or what is switched off. */
export function valueText(knob: TuningKnob, value: number): string {
  return (value === 0 && ZERO_WORDS[knob]) || exactly(tuningUnit(knob), value);
}
