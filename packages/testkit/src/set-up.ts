import { afterAll, beforeAll, beforeEach } from "vitest";

type TearDown = () => unknown;

/** Undo the current set-ups, in the order in which those were made. The last is undone first: it may depend on the others. */
const tearDowns: (TearDown | undefined)[] = [];

/**
 * Calls `work` before the first test of a file or suite, and again before a test's second try, which must not find
 * what the first try left: a test that uses it depends on no earlier test of its file. What `work` returns undoes it.
 */
export function setUp(work: () => Promise<TearDown | undefined> | Promise<void>): void {
  let place = 0;
  const undo = async () => {
    while (tearDowns.length > place) await tearDowns.pop()?.();
  };
  const renew = async () => {
    await undo();
    tearDowns.push((await work()) ?? undefined);
  };
  beforeAll(() => {
    place = tearDowns.length;
    return renew();
  });
  beforeEach(({ task }) => ((task.result?.retryCount ?? 0) > 0 ? renew() : undefined));
  afterAll(undo);
}
