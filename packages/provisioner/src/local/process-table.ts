/**
 * The operating system's process table: enough to recognize our own process after a restart of everything, and
 * never to mistake another one for it.
 *
 * A pid alone is not an identity, because the system reuses it; a pid with its process's start time is. Linux
 * gives that time in clock ticks since boot (`/proc/<pid>/stat`, field 22), which the boot id makes unique; macOS
 * gives it in seconds (`ps -o lstart`).
 */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";

export interface ProcessIdentity {
  readonly pid: number;
  /** Opaque; equal for the same process, different for two processes with the same pid. */
  readonly startMark: string;
}

export interface ProcessTable {
  /** The live process with that pid. Zombies do not count: they only wait to be reaped. */
  find(pid: number): ProcessIdentity | undefined;
  /** This user's processes whose command line ends in exactly these arguments. */
  findByArguments(lastArguments: readonly string[]): ProcessIdentity[];
  /** This user's processes with this argument anywhere on their command line. */
  findByArgument(argument: string): ProcessIdentity[];
  /** This user's processes with the first arguments in a row on their command line, and the others after them. */
  findByCommand(first: readonly string[], others: readonly string[]): ProcessIdentity[];
  /** This user's processes of that process group, with their command lines. */
  findByGroup(groupId: number): GroupMember[];
}

export interface GroupMember {
  readonly identity: ProcessIdentity;
  readonly command: string;
}

/** The table of the machine this program runs on. Throws on systems other than Linux and macOS. */
export function systemProcessTable(): ProcessTable {
  if (process.platform === "linux") return new LinuxProcessTable();
  if (process.platform === "darwin") return new PsProcessTable();
  throw new Error(`the local driver runs on Linux and macOS, not on ${process.platform}`);
}

export function isSameProcess(a: ProcessIdentity, b: ProcessIdentity | undefined): boolean {
  return b !== undefined && a.pid === b.pid && a.startMark === b.startMark;
}

class LinuxProcessTable implements ProcessTable {
  readonly #bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();

  find(pid: number): ProcessIdentity | undefined {
    const fields = statFields(pid);
    if (fields === undefined) return undefined;
    const [state] = fields;
    const startTicks = fields[19];
    if (state === "Z" || state === "X" || startTicks === undefined) return undefined;
    return { pid, startMark: `${this.#bootId}:${startTicks}` };
  }

  findByArguments(lastArguments: readonly string[]): ProcessIdentity[] {
    const wanted = `\0${lastArguments.join("\0")}\0`;
    return this.#own((commandLine) => commandLine.endsWith(wanted)).map((each) => each.identity);
  }

  findByArgument(argument: string): ProcessIdentity[] {
    const wanted = `\0${argument}\0`;
    return this.#own((commandLine) => commandLine.includes(wanted)).map((each) => each.identity);
  }

  findByCommand(first: readonly string[], others: readonly string[]): ProcessIdentity[] {
    const [before, after] = [first, others].map((each) => `\0${each.join("\0")}\0`);
    return this.#own((commandLine) => isFollowed(commandLine, before, after)).map(
      (each) => each.identity,
    );
  }

  findByGroup(groupId: number): GroupMember[] {
    return this.#own((_, pid) => statFields(pid)?.[2] === String(groupId));
  }

  /** `chosen` sees a command line with a NUL before and after each argument. */
  #own(chosen: (commandLine: string, pid: number) => boolean): GroupMember[] {
    return readdirSync("/proc")
      .filter((entry) => /^\d+$/.test(entry))
      .flatMap((entry) => {
        const commandLine = readIfThere(`/proc/${entry}/cmdline`);
        if (commandLine === undefined || !chosen(`\0${commandLine}`, Number(entry))) return [];
        const identity = isOwn(`/proc/${entry}`) ? this.find(Number(entry)) : undefined;
        return identity ? [{ identity, command: commandLine.replaceAll("\0", " ").trimEnd() }] : [];
      });
  }
}

/** Fields of `/proc/<pid>/stat` from the third on: state, parent, process group, … */
function statFields(pid: number): string[] | undefined {
  const stat = readIfThere(`/proc/${pid}/stat`);
  // The second field is the program's name in parentheses and may itself hold any character.
  return stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
}

/** One line of `ps`: pid, group, user id, state, start (`Fri Nov 21 11:31:02 2026`), command line. */
const PS_LINE = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(\S+\s+\S+\s+\d+\s+[\d:]+\s+\d+)\s+(.*)$/;
const PS_COLUMNS = "pid=,pgid=,uid=,stat=,lstart=,command=";
/** A command line of the longest path is about 4 KiB, a busy machine has some 2,000 processes. */
const PS_OUTPUT_BYTES_MAX = 16 * 1024 * 1024;

/** Works with any BSD-like `ps`; used on macOS, tested on Linux too. */
export class PsProcessTable implements ProcessTable {
  find(pid: number): ProcessIdentity | undefined {
    return this.#rows(["-p", String(pid)])[0]?.identity;
  }

  findByArguments(lastArguments: readonly string[]): ProcessIdentity[] {
    const wanted = ` ${lastArguments.join(" ")}`;
    return this.#own()
      .filter((row) => row.command.endsWith(wanted))
      .map((row) => row.identity);
  }

  findByArgument(argument: string): ProcessIdentity[] {
    return this.#own()
      .filter((row) => `${row.command} `.includes(` ${argument} `))
      .map((row) => row.identity);
  }

  findByCommand(first: readonly string[], others: readonly string[]): ProcessIdentity[] {
    const [before, after] = [first, others].map((each) => ` ${each.join(" ")} `);
    return this.#own()
      .filter((row) => isFollowed(` ${row.command} `, before, after))
      .map((row) => row.identity);
  }

  findByGroup(groupId: number): GroupMember[] {
    return this.#own().filter((row) => row.groupId === groupId);
  }

  #own() {
    const ownId = process.geteuid?.();
    return this.#rows(["-ax"]).filter((row) => row.userId === ownId);
  }

  #rows(selection: readonly string[]) {
    return ps([...selection, "-ww", "-o", PS_COLUMNS])
      .split("\n")
      .flatMap((line) => {
        const [, pid, groupId, userId, state, startMark, command] = PS_LINE.exec(line) ?? [];
        if (pid === undefined || startMark === undefined || state?.startsWith("Z")) return [];
        const identity = { pid: Number(pid), startMark: startMark.replace(/\s+/g, " ") };
        const row = { identity, groupId: Number(groupId), userId: Number(userId) };
        return [{ ...row, command: (command ?? "").trimEnd() }];
      });
  }
}

/** The last character of the first text may be the first one of the second. */
function isFollowed(text: string, first = "", second = ""): boolean {
  const at = text.indexOf(first);
  return at !== -1 && text.indexOf(second, at + first.length - 1) !== -1;
}

/** The start time is text: a fixed language and zone make it comparable. */
const PS_ENVIRONMENT: Record<string, string> = { PATH: "/bin:/usr/bin", LC_ALL: "C", TZ: "UTC" };

function ps(parameters: readonly string[]): string {
  try {
    return execFileSync("ps", parameters, {
      encoding: "utf8",
      env: PS_ENVIRONMENT as NodeJS.ProcessEnv,
      maxBuffer: PS_OUTPUT_BYTES_MAX,
      stdio: ["ignore", "pipe", "ignore"],
    });
  } catch (error) {
    // Exit status 1 is how ps says that there is no such process.
    if (error instanceof Error && "status" in error && error.status === 1) return "";
    throw error;
  }
}

function isOwn(path: string): boolean {
  try {
    return statSync(path).uid === process.geteuid?.();
  } catch {
    return false;
  }
}

/** A process may end while it is read; its files then vanish with `ENOENT` or `ESRCH`. */
function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
