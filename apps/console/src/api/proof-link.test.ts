import type { AppRouter } from "@millrace/router";
import { createTRPCClient, TRPCClientError, type TRPCLink } from "@trpc/client";
import { observable } from "@trpc/server/observable";
import { expect, test } from "vitest";
import { onProofNeeded, PROOF_NEEDED } from "../session/proof.ts";
import { proofLink } from "./proof-link.ts";

/** An API that refuses so many requests with that code. */
function api(refusals: number, code: string) {
  let asked = 0;
  const end: TRPCLink<AppRouter> = () => () =>
    observable((observer) => {
      asked += 1;
      if (asked > refusals) {
        observer.next({ result: { data: "made" } });
        return observer.complete();
      }
      const error = { message: "no", code: -32003, data: { problem: { code } } };
      observer.error(TRPCClientError.from({ error } as never));
    });
  const client = createTRPCClient<AppRouter>({ links: [proofLink, end] });
  return { create: () => client.apiKey.create.mutate({ name: "k" }), asked: () => asked };
}

test("a request is repeated once after the proof", async () => {
  const forget = onProofNeeded(async () => true);
  expect(await api(1, PROOF_NEEDED).create()).toBe("made");
  const twice = api(2, PROOF_NEEDED);
  await expect(twice.create()).rejects.toThrow("no");
  expect(twice.asked()).toBe(2);
  forget();
});

test("without the proof, or for another reason, the refusal stands", async () => {
  const forget = onProofNeeded(async () => false);
  const declined = api(1, PROOF_NEEDED);
  await expect(declined.create()).rejects.toThrow("no");
  expect(declined.asked()).toBe(1);
  forget();
  const forbidden = api(1, "forbidden");
  await expect(forbidden.create()).rejects.toThrow("no");
  expect(forbidden.asked()).toBe(1);
});
