/** What the results of Kafka Streams and Kafka Connect must be, by what was put in. */

export interface Keyed {
  partition: number;
  key: string;
  value: string;
}

/** Of each key and window, all counts from 1 to the number of its records, each once and in order. */
export function checkCounts(input: Keyed[], output: Keyed[]): string[] {
  const numbers = new Set<string>();
  const due = new Map<string, number>();
  const breaches: string[] = [];
  for (const { value } of input) {
    const [key, window, number = ""] = value.split("/");
    if (numbers.has(number)) breaches.push(`the input has record ${number} twice`);
    numbers.add(number);
    due.set(`${key}/${window}`, (due.get(`${key}/${window}`) ?? 0) + 1);
  }
  const counted = new Map<string, number>();
  for (const { key, value } of output) {
    const last = counted.get(key) ?? 0;
    if (Number(value) !== last + 1) breaches.push(`${key}: ${value} follows ${last}`);
    counted.set(key, Math.max(last, Number(value)));
  }
  for (const [key, count] of due) {
    const last = counted.get(key) ?? 0;
    if (last !== count) breaches.push(`${key}: counted ${last} of ${count}`);
  }
  for (const key of counted.keys()) if (!due.has(key)) breaches.push(`${key}: not of the input`);
  return breaches;
}

export interface LinesSeen {
  breaches: string[];
  /** How often the lines start again further back. */
  jumps: number;
  duplicates: number;
}

/**
 * Lines `line 0`, `line 1` and so on, as they come out of a file, a topic and a file again. None is missing; those that
 * were seen already may follow, at most `jumpsMax` times.
 */
export function checkLines(
  name: string,
  lines: string[],
  count: number,
  jumpsMax: number,
): LinesSeen {
  const seen: LinesSeen = { breaches: [], jumps: 0, duplicates: 0 };
  let [next, previous] = [0, -1];
  for (const line of lines.flatMap(numbersOf)) {
    if (Number.isNaN(line)) seen.breaches.push(`${name}: not a line of the file`);
    if (line > next) seen.breaches.push(`${name}: line ${line} where ${next} is due`);
    if (line < next) seen.duplicates++;
    if (line <= previous) seen.jumps++;
    if (line >= next) next = line + 1;
    previous = line;
  }
  if (next !== count) seen.breaches.push(`${name}: ${next} of ${count} lines`);
  if (seen.jumps > jumpsMax) {
    seen.breaches.push(`${name}: starts again ${seen.jumps} times, ${jumpsMax} are explained`);
  }
  return seen;
}

/** A worker that dies between a line and its end leaves two lines in one. */
function numbersOf(line: string): number[] {
  if (!/^(line \d+)+$/.test(line)) return [Number.NaN];
  return [...line.matchAll(/line (\d+)/g)].map(([, number]) => Number(number));
}
