/**
 * The broker writes directly to `broker.log`, so it does not depend on the worker. Its descriptor is in append
 * mode: the file can be copied and truncated while it is open, as logrotate's copytruncate does. Lines written
 * between the two are lost, which is acceptable for a log.
 */
import { copyFile, open, stat, truncate } from "node:fs/promises";
import type { BrokerExit } from "@millrace/domain";

/** Each cluster has at most two log files of this size. */
export const LOG_BYTES_MAX = 16 * 1024 * 1024;
/** Part of a log that an error message shows. */
const TAIL_BYTES = 4_096;

/** Moves the log to `<file>.1` once it has grown past the bound. */
export async function boundLog(file: string, bytesMax: number = LOG_BYTES_MAX): Promise<void> {
  const size = await sizeOf(file);
  if (size === undefined || size <= bytesMax) return;
  await copyFile(file, `${file}.1`);
  await truncate(file, 0);
}

/** The last lines of the log; empty if there is none. */
export async function logTail(file: string): Promise<string> {
  const size = await sizeOf(file);
  if (size === undefined) return "";
  const handle = await open(file, "r");
  try {
    const length = Math.min(size, TAIL_BYTES);
    const { buffer, bytesRead } = await handle.read({
      buffer: Buffer.alloc(length),
      position: size - length,
    });
    const text = buffer.subarray(0, bytesRead).toString("utf8");
    // The first line is cut where the log is longer than the tail.
    return (length < size ? text.slice(text.indexOf("\n") + 1) : text).trimEnd();
  } finally {
    await handle.close();
  }
}

/** The broker's last line: `millrace: exit CODE: REASON`. */
const EXIT_LINE = /^millrace: exit (\d+): (.*)$/;
/** Its last line where it was asked to stop. */
const STOPPED_LINE = / INFO millrace_broker::broker: stopped /;
/** A thread that has not ended yet may log a little behind it. */
const LINES_BEHIND_EXIT = 3;
/** Length of a reason in a condition, in characters. */
const REASON_LENGTH_MAX = 400;

/** The broker's exit from the end of its log; undefined if there is no log. */
export function exitIn(tail: string): BrokerExit | undefined {
  if (tail === "") return undefined;
  const lines = tail.split("\n").slice(-LINES_BEHIND_EXIT).reverse();
  for (const line of lines) {
    const [, code, reason = ""] = EXIT_LINE.exec(line) ?? [];
    if (code !== undefined) return { code: Number(code), reason: shortened(reason) };
    if (STOPPED_LINE.test(line)) return { code: 0, reason: "it was asked to stop" };
  }
  return { code: undefined, reason: "its process was killed or stopped" };
}

function shortened(reason: string): string {
  if (reason.length <= REASON_LENGTH_MAX) return reason;
  return `${reason.slice(0, REASON_LENGTH_MAX)}…`;
}

async function sizeOf(file: string): Promise<number | undefined> {
  try {
    return (await stat(file)).size;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}
