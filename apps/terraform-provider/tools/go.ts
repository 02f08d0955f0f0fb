/**
 * Runs Go for the scripts of this room. Tests end with the summary line that the other rooms' runner
 * prints, so that they are counted with them; where there is no Go, that is said and counted as skipped.
 */
import { spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** One line of `go test -json`. */
interface TestEvent {
  Action: string;
  Package?: string;
  Test?: string;
  Output?: string;
  /** Of what the compiler says: it has no package. */
  ImportPath?: string;
  /** The import path whose compilation failed a package. */
  FailedBuild?: string;
}

const room = join(import.meta.dirname, "..");
/** Where Go installs itself when nobody puts it on the path. */
const USUAL_PLACE = "/usr/local/go/bin/go";

const MARKS = { pass: "✓", fail: "✗", skip: "↓" } as const;

const args = process.argv.slice(2);
const needed = /^go (\d+)\.(\d+)/m.exec(readFileSync(join(room, "go.mod"), "utf8"));
const go = findGo();
if (go === undefined) {
  const version = `${needed?.[1]}.${needed?.[2]}`;
  console.log(`skipped: the Terraform provider needs Go ${version} or later (https://go.dev/dl)`);
  if (args[0] === "test") summary(0, 0, 1);
} else if (args[0] === "test") {
  process.exitCode = await test(go, args.slice(1));
} else {
  process.exitCode = spawnSync(go, args, { cwd: room, stdio: "inherit" }).status ?? 1;
}

/** Whoever names a Go means that one. */
function findGo(): string | undefined {
  const named = process.env.MILLRACE_GO;
  return (named ? [named] : ["go", USUAL_PLACE]).find(isNewEnough);
}

/** In the room: an older Go gets the one that go.mod asks for, and says so, where it can. */
function isNewEnough(program: string): boolean {
  const asked = spawnSync(program, ["version"], { cwd: room, encoding: "utf8" });
  const has = /\bgo(\d+)\.(\d+)/.exec(asked.stdout ?? "");
  if (asked.status !== 0 || has === null || needed === null) return false;
  const [major, minor] = [Number(has[1]), Number(has[2])];
  const least = Number(needed[1]);
  return major > least || (major === least && minor >= Number(needed[2]));
}

/** Runs the tests, shows what failed, and returns the exit code. */
async function test(program: string, rest: string[]): Promise<number> {
  const child = spawn(program, ["test", "-json", ...rest], {
    cwd: room,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ends = new Promise<number>((done) => child.on("close", (code) => done(code ?? 1)));
  const outputs = new Map<string, string[]>();
  const count = { pass: 0, fail: 0, skip: 0 };
  for await (const line of createInterface({ input: child.stdout })) {
    const event = parse(line);
    if (event === undefined) {
      console.log(line);
      continue;
    }
    const key = event.ImportPath ?? `${event.Package ?? ""} ${event.Test ?? ""}`;
    const kept = outputs.get(key) ?? [];
    outputs.set(key, kept);
    if (event.Output !== undefined) kept.push(event.Output);
    const { Action } = event;
    if (Action !== "pass" && Action !== "fail" && Action !== "skip") continue;
    const compiler = outputs.get(event.FailedBuild ?? "") ?? [];
    const text = [...compiler, ...kept].join("");
    if (event.Test !== undefined) {
      count[Action] += 1;
      console.log(`${MARKS[Action]} ${key}`);
    }
    if (Action === "fail" || (Action === "skip" && event.Test !== undefined)) console.log(text);
  }
  const code = await ends;
  summary(count.fail, count.pass, count.skip);
  return code;
}

function parse(line: string): TestEvent | undefined {
  try {
    return JSON.parse(line) as TestEvent;
  } catch {
    return undefined;
  }
}

function summary(failed: number, passed: number, skipped: number): void {
  const parts = [
    [failed, "failed"],
    [passed, "passed"],
    [skipped, "skipped"],
  ] as const;
  const said = parts.filter(([number]) => number > 0).map(([number, how]) => `${number} ${how}`);
  console.log(`      Tests  ${said.join(" | ") || "0 passed"} (${failed + passed + skipped})`);
}
