import { expect, it } from "vitest";
import { run } from "./command.ts";

it("a command that is ended for its time has failed, whatever it says of itself", async () => {
  const polite = "trap 'exit 0' TERM; while :; do sleep 0.1; done";
  const options = { cwd: "/", title: "waiting", secondsMax: 0.3 };
  const ended = await run("sh", ["-c", polite], options);
  expect(ended.code).toBe(124);
  expect(ended.output).toContain("without a result");
});

it("a command ends with its own code", async () => {
  const options = { cwd: "/", title: "leaving", secondsMax: 10 };
  expect((await run("sh", ["-c", "exit 3"], options)).code).toBe(3);
});
