/**
 * The broker writes straight into `broker.log`, so that it needs nobody to live. Its descriptor is
 * in append mode: the file can be copied away and truncated under it (as logrotate's copytruncate
 * does; lines written between the two are lost, a log is worth that).
 */
import { copyFile, open, stat, truncate } from "node:fs/promises";

/** Two files of this size per cluster are the bound. */
export const LOG_BYTES_MAX = 16 * 1024 * 1024;
/** What an error message can carry of a log. */
const TAIL_BYTES = 2_048;

/** Moves the log to `<file>.1` once it has grown past the bound. */
export async function boundLog(file: string, bytesMax: number = LOG_BYTES_MAX): Promise<void> {
  const size = await sizeOf(file);
  if (size === undefined || size <= bytesMax) return;
  await copyFile(file, `${file}.1`);
  await truncate(file, 0);
}

/** The last lines of the log; empty where there is none. */
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

async function sizeOf(file: string): Promise<number | undefined> {
  try {
    return (await stat(file)).size;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}
