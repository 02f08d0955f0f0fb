import { test as base } from "@playwright/test";

/**
 * With MILLRACE_FIRST_TRY_FAILS=1, each test fails once after it has passed. What then fails a second time cannot be
 * tried again: it finds what its first try left.
 */
export const test = base.extend<{ firstTryFails: undefined }>({
  firstTryFails: [
    async ({ browserName: _ }, use, { retry }) => {
      await use(undefined);
      if (process.env.MILLRACE_FIRST_TRY_FAILS === "1" && retry === 0) {
        throw new Error("The first try fails on purpose.");
      }
    },
    { auto: true },
  ],
});
