/** How long each part of the suite took, read from what the runners print. */

/** A stage, or a test file or test program within one. */
export interface Part {
  name: string;
  seconds: number;
}

/** vitest: ` ✓ test/foo.test.ts (12 tests) 3456ms`, behind turbo's `package:task:` prefix. */
const VITEST_FILE = /(?:^|: ) *[✓❯×] (\S+\.test\.tsx?) \(.*?\) (\d+)\s?ms$/;
/** cargo names the program, and ends its tests with `finished in 1.23s`. */
const CARGO_PROGRAM = /Running (?:unittests )?\S+ \(\S*\/deps\/(\w+)-[0-9a-f]+\)/;
const CARGO_TIME = /test result: .* finished in ([\d.]+)s/;
const TURBO_PREFIX = /^(@[^:]+):/;

/** The parts of one stage. */
export function partsOf(stage: string, output: string): Part[] {
  const parts: Part[] = [];
  let program = "";
  for (const line of output.split("\n")) {
    const where = TURBO_PREFIX.exec(line)?.[1] ?? "";
    const file = VITEST_FILE.exec(line);
    if (file !== null) {
      parts.push({ name: `${stage}: ${where} ${file[1]}`, seconds: Number(file[2]) / 1_000 });
      continue;
    }
    program = CARGO_PROGRAM.exec(line)?.[1] ?? program;
    const time = CARGO_TIME.exec(line);
    if (time !== null) parts.push({ name: `${stage}: ${program}`, seconds: Number(time[1]) });
  }
  return parts;
}

/** The `count` longest, the longest first. */
export function slowest(parts: readonly Part[], count: number): Part[] {
  return parts.toSorted((a, b) => b.seconds - a.seconds).slice(0, count);
}
