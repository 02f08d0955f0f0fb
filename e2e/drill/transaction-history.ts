/** Checks what transactional clients wrote against what committed readers see. */

/** What a producer says of its transactions. */
export type Outcome = "committed" | "aborted" | "unknown";

export interface Transaction {
  producer: string;
  number: number;
  /** By partition, the sequences of its records. */
  sent: { partition: number; sequence: number }[];
  /** None where the producer has not told any more. */
  outcome: Outcome;
}

/** A record as a committed reader sees it. */
export interface SeenRecord {
  partition: number;
  offset: number;
  value: string;
  /** Its timestamp, Unix time in ms. */
  at: number;
}

/** The ends of a partition when the reader began, and where it was at its end. */
export interface PartitionEnd {
  partition: number;
  stable: number;
  high: number;
  position: number;
}

const SHOWN_MAX = 5;

/** Breaches of the promise, each in words; none where all is well. */
export function checkWritten(transactions: Transaction[], seen: SeenRecord[]): string[] {
  const breaches: string[] = [];
  const count = new Map<string, number>();
  for (const { partition, value } of seen) {
    const key = `${partition} ${value}`;
    count.set(key, (count.get(key) ?? 0) + 1);
  }
  for (const [key, times] of count) {
    if (times > 1) breaches.push(`duplicated ${times} times: ${key}`);
  }
  const known = new Set<string>();
  for (const { producer, number, sent, outcome } of transactions) {
    const keys = sent.map(
      ({ partition, sequence }) => `${partition} ${producer}/${sequence}/${number}`,
    );
    for (const key of keys) known.add(key);
    const visible = keys.filter((key) => count.has(key)).length;
    const name = `${producer}'s transaction ${number} (${visible} of ${keys.length} records visible)`;
    if (outcome === "committed" && visible < keys.length) breaches.push(`lost: ${name}`);
    if (outcome === "aborted" && visible > 0) breaches.push(`aborted, yet visible: ${name}`);
    if (outcome === "unknown" && visible > 0 && visible < keys.length)
      breaches.push(`torn: ${name}`);
  }
  for (const key of count.keys()) if (!known.has(key)) breaches.push(`nobody sent: ${key}`);
  return [...breaches, ...checkOrder(seen)];
}

/** In each partition, each producer's sequences rise. */
function checkOrder(seen: SeenRecord[]): string[] {
  const breaches: string[] = [];
  const last = new Map<string, number>();
  for (const { partition, offset, value } of seen) {
    const [producer, sequence] = value.split("/") as [string, string];
    const key = `${partition} ${producer}`;
    if (Number(sequence) <= (last.get(key) ?? -1)) {
      breaches.push(`reordered: ${value} at ${partition}/${offset} after ${last.get(key)}`);
    }
    last.set(key, Number(sequence));
  }
  return breaches;
}

/** The copies are the same records in the same order, partition by partition. */
export function checkCopied(input: SeenRecord[], output: SeenRecord[]): string[] {
  const [from, to] = [byPartition(input), byPartition(output)];
  const breaches: string[] = [];
  for (const partition of new Set([...from.keys(), ...to.keys()])) {
    const [wanted, copied] = [from.get(partition) ?? [], to.get(partition) ?? []];
    const there = new Set(copied);
    const lost = wanted.filter((value) => !there.has(value));
    if (lost.length > 0)
      breaches.push(`not copied in ${partition}: ${lost.length}, ${shown(lost)}`);
    if (there.size < copied.length) {
      const twice = copied.filter((value, at) => copied.indexOf(value) !== at);
      breaches.push(`copied twice in ${partition}: ${twice.length}, ${shown(twice)}`);
    }
    const asked = new Set(wanted);
    const invented = copied.filter((value) => !asked.has(value));
    if (invented.length > 0)
      breaches.push(`copied what is not committed in ${partition}: ${shown(invented)}`);
    const at = copied.findIndex((value, place) => value !== wanted[place]);
    if (at >= 0)
      breaches.push(
        `order differs in ${partition} from the copy ${at} on: ${copied[at]}, not ${wanted[at]}`,
      );
  }
  return breaches;
}

/** What retention has left is what was seen from there on, and all that is younger than `since`. */
export function checkLeft(seen: SeenRecord[], left: SeenRecord[], since: number): string[] {
  const breaches: string[] = [];
  for (const partition of new Set(seen.map(({ partition }) => partition))) {
    const of = ({ partition: other }: SeenRecord) => other === partition;
    const now = left.filter(of);
    const first = now[0]?.offset ?? Number.POSITIVE_INFINITY;
    const young = seen.filter(of).find(({ offset, at }) => offset < first && at >= since);
    if (young !== undefined)
      breaches.push(`gone from ${partition}, though young: ${describe(young)}`);
    const before = seen.filter(of).filter(({ offset }) => offset >= first);
    const at = before.findIndex(
      ({ offset, value }, place) => offset !== now[place]?.offset || value !== now[place]?.value,
    );
    const change = at < 0 && before.length !== now.length ? before.length : at;
    if (change >= 0) {
      const [was, is] = [before[change], now[change]].map(describe);
      breaches.push(`changed in ${partition}: first ${was}, later ${is}`);
    }
  }
  return breaches;
}

function describe(record: SeenRecord | undefined): string {
  return record === undefined ? "nothing" : `${record.value} at ${record.offset}`;
}

/** Nothing stands in the way of committed readers. */
export function checkEnds(topic: string, ends: PartitionEnd[]): string[] {
  return ends.flatMap(({ partition, stable, high, position }) => {
    const breaches: string[] = [];
    if (stable < high) breaches.push(`${topic}/${partition} is blocked at ${stable} of ${high}`);
    if (position < stable)
      breaches.push(`the reader of ${topic}/${partition} stopped at ${position} of ${stable}`);
    return breaches;
  });
}

function byPartition(records: SeenRecord[]): Map<number, string[]> {
  const values = new Map<number, string[]>();
  for (const { partition, value } of records) {
    const of = values.get(partition) ?? [];
    of.push(value);
    values.set(partition, of);
  }
  return values;
}

function shown(values: string[]): string {
  return values.slice(0, SHOWN_MAX).join(", ");
}
