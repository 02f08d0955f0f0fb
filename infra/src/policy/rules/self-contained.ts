import type { PolicyRule } from "../rule.ts";

/** A stack can be planned without an account: it reads no data source and calls no module. */
export const selfContained: PolicyRule = {
  name: "self-contained",
  check: ({ foreign }) =>
    foreign.map((address) => ({
      address,
      message: "give the stack the value itself: a plan must work without an account",
    })),
};
