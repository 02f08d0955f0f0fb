import { afterAll, beforeAll, beforeEach } from "vitest";

type TearDown = () => unknown;

/**
 * Calls `work` before the first test of a file or suite, and again before a test's second try, which must not find
 * what the first try left: a test that uses it depends on no earlier test of its file. What `work` returns undoes it.
 */
export function setUp(work: () => Promise<TearDown | undefined> | Promise<void>): void {
  let tearDown: TearDown | undefined;
  const undo = async () => {
    await tearDown?.();
    tearDown = undefined;
  };
  const renew = async () => {
    await undo();
    tearDown = (await work()) ?? undefined;
  };
  beforeAll(renew);
  beforeEach(({ task }) => ((task.result?.retryCount ?? 0) > 0 ? renew() : undefined));
  afterAll(undo);
}
