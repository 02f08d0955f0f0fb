import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { expect, test, vi } from "vitest";
import { lastError } from "./last-error.ts";

test("a polled query that never answered keeps its error while it asks again", async () => {
  const client = new QueryClient();
  const failures = [new Error("first"), new Error("second")];
  const asked: ((value: string) => void)[] = [];
  const observer = new QueryObserver(client, {
    queryKey: ["polled"],
    queryFn: () => {
      const failure = failures.shift();
      if (failure) return Promise.reject(failure);
      return new Promise<string>((resolve) => asked.push(resolve));
    },
    retry: false,
  });
  let kept: unknown = null;
  const shown: unknown[] = [];
  const end = observer.subscribe((result) => {
    kept = lastError(kept, result);
    shown.push(kept);
  });
  await vi.waitFor(() => expect(kept).toMatchObject({ message: "first" }));
  shown.length = 0;
  await observer.refetch();
  const third = observer.refetch();
  await vi.waitFor(() => expect(asked).toHaveLength(1));
  expect(observer.getCurrentResult().error).toBeNull();
  expect(shown).not.toContain(null);
  expect(kept).toMatchObject({ message: "second" });
  asked[0]?.("an answer");
  await third;
  expect(kept).toBeNull();
  end();
  client.clear();
});
