import { execFileSync } from "node:child_process";

const FILE_BYTES_MAX = 64 * 1024 * 1024;

/** A file as a commit would have it. */
interface StagedFile {
  /** Relative to the root of the working tree. */
  readonly file: string;
  /** One character per byte. */
  readonly text: string;
}

/**
 * The files that the next commit adds or changes, from the index: the working tree may have other contents by then. The
 * environment says which index, as git sets it for hooks.
 */
export function stagedFiles(root: string): StagedFile[] {
  const git = (...args: string[]) =>
    execFileSync("git", args, { cwd: root, maxBuffer: FILE_BYTES_MAX }).toString("latin1");
  const options = ["--cached", "--name-only", "--no-renames", "--diff-filter=d"];
  const names = Buffer.from(git("diff", ...options, "--ignore-submodules", "-z"), "latin1");
  return names
    .toString()
    .split("\0")
    .filter((file) => file !== "")
    .map((file) => ({ file, text: git("cat-file", "blob", `:0:${file}`) }));
}
