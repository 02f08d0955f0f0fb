import { afterEach } from "vitest";

/**
 * With MILLRACE_FIRST_TRY_FAILS=1, each test fails once after it has passed. What then fails a second time cannot be
 * tried again: it finds what its first try left.
 */
afterEach(({ task }) => {
  if ((task.result?.retryCount ?? 0) === 0) throw new Error("The first try fails on purpose.");
});
