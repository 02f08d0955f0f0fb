/** Small files of the state folder, readable only by their owner. */
import { type FileHandle, open, readFile, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";

/**
 * Replaces a file so that a reader, or a crash, sees the old content or the new, never a part. `beforeRename` runs
 * once the new content is on disk beside the old; if it fails, the file stays as it was.
 */
export async function replaceFile(
  path: string,
  text: string,
  beforeRename?: () => Promise<void>,
): Promise<void> {
  const next = `${path}.${process.pid}.new`;
  try {
    await withHandle(await open(next, "w", 0o600), async (handle) => {
      await handle.writeFile(text);
      await handle.sync();
    });
    await beforeRename?.();
    await rename(next, path);
  } catch (error) {
    // What failed first is what the caller can act on.
    await rm(next, { force: true }).catch(() => undefined);
    throw error;
  }
  await withHandle(await open(dirname(path), "r"), (handle) => handle.sync());
}

async function withHandle(handle: FileHandle, work: (handle: FileHandle) => Promise<void>) {
  try {
    await work(handle);
  } finally {
    await handle.close();
  }
}

export async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

export function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}
