/**
 * An instance of a broker slot, as far as a script can tell: a root of its own in namespaces of its
 * own, a loop device in place of the volume, and small programs in place of AWS, the instance's
 * metadata, systemd and the journal. The broker, the file system and the shell are real.
 */
import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import {
  chmodSync,
  constants,
  createReadStream,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { copyFile, mkdtemp, open, readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { userData } from "../../src/constructs/broker-slot/user-data.ts";
import { LINK_SECRET, type SlotSpecOptions, slotSpec } from "./slot-spec.ts";

const ENTER = join(import.meta.dirname, "enter.sh");
const VOLUME_MIB = 512;
const BOOT_SECONDS_MAX = 90;
const COMMAND_MS_MAX = 120_000;
const OUTPUT_BYTES_MAX = 16 << 20;
/** The environment that cloud-init and systemd give, in short. */
const PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Ports of the sockets in the state LISTEN that a program of the machine holds. */
const LISTENING = `awk '$4 == "0A" { split($2, at, ":"); print at[2], $10 }' /proc/net/tcp /proc/net/tcp6 |
while read -r port inode; do
  if ls -l /proc/[0-9]*/fd 2>/dev/null | grep -qF "socket:[$inode]"; then echo "$((16#$port))"; fi
done | sort -nu`;

/** Where cloud-init keeps what it runs. */
const CLOUD_INIT_DIR = "/var/lib/cloud/instance/scripts";

export const VOLUME = "vol-0123456789abcdef0";
/** Of the control link. */
export const CREDENTIAL = `mlk_${"a".repeat(43)}`;
export const INSTANCE = "i-00000000000000001";

export interface Ran {
  readonly code: number;
  /** Both streams, as they came. */
  readonly output: string;
}

/** Why this machine cannot run such a test; undefined where it can. */
export function whyNot(brokerBin: string | undefined): string | undefined {
  if (process.getuid?.() !== 0) return "needs root";
  if (!existsSync("/dev/loop-control")) return "needs loop devices";
  if (brokerBin === undefined || !existsSync(brokerBin)) return "needs MILLRACE_BROKER_BIN";
  const tools = ["mkfs.xfs", "mkfs.ext4", "unshare", "nsenter", "losetup", "python3", "curl"];
  const missing = tools.filter((tool) => !isThere(tool));
  if (missing.length > 0) return `needs ${missing.join(", ")}`;
  try {
    execFileSync("unshare", ["--mount", "--pid", "--fork", "true"], { stdio: "ignore" });
    execFileSync("losetup", ["--find"], { stdio: "ignore" });
  } catch {
    return "needs namespaces and a free loop device";
  }
  return undefined;
}

/** Whether the system has the program. */
export function isThere(tool: string): boolean {
  return ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].some((dir) => existsSync(join(dir, tool)));
}

export class SlotMachine {
  readonly folder: string;
  readonly device: string;
  readonly #brokerBin: string;
  #unshare: ChildProcess | undefined;
  #init: number | undefined;

  private constructor(folder: string, device: string, brokerBin: string) {
    this.folder = folder;
    this.device = device;
    this.#brokerBin = brokerBin;
  }

  /** A machine that is off, with a blank volume that nobody holds and an empty bucket. */
  static async create(brokerBin: string): Promise<SlotMachine> {
    const folder = await mkdtemp(join(tmpdir(), "millrace-slot-"));
    const image = join(folder, "volume.img");
    execFileSync("truncate", ["-s", `${VOLUME_MIB}M`, image]);
    const device = execFileSync("losetup", ["--find", "--show", image]).toString().trim();
    const machine = new SlotMachine(folder, device, brokerBin);
    for (const part of ["bucket", "artefacts", "secrets", "faults", "cut"]) {
      mkdirSync(join(folder, "outside", part), { recursive: true });
    }
    // The broker writes there as its own user.
    chmodSync(join(folder, "outside/bucket"), 0o777);
    machine.addVolume(VOLUME);
    machine.write("instance", INSTANCE);
    machine.write(`secrets/${LINK_SECRET}`, CREDENTIAL);
    return machine;
  }

  /** What the machine's surroundings know: a file below the folder `outside`. */
  write(path: string, text: string): void {
    const file = join(this.folder, "outside", path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }

  read(path: string): string {
    const file = join(this.folder, "outside", path);
    return existsSync(file) ? readFileSync(file, "utf8") : "";
  }

  /** Makes a certificate the only root that the machine's programs trust. The machine must be on. */
  trust(certificate: string): void {
    const file = join(this.folder, "root/etc/ssl/certs/ca-certificates.crt");
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, certificate);
  }

  lines(path: string): string[] {
    return this.read(path)
      .split("\n")
      .filter((line) => line !== "");
  }

  addVolume(id: string, cluster = "clu_test", slot = 0): void {
    this.write(`volumes/${id}/cluster`, cluster);
    this.write(`volumes/${id}/slot`, String(slot));
  }

  /** Puts the broker into the artefact bucket; `content` stands for a broken one. */
  async publish(content?: string): Promise<void> {
    const file = join(this.folder, "outside/artefacts/broker/millrace");
    mkdirSync(dirname(file), { recursive: true });
    if (content === undefined) await copyFile(this.#brokerBin, file, constants.COPYFILE_FICLONE);
    else writeFileSync(file, content);
  }

  /** Turns the machine on. */
  async powerOn(): Promise<void> {
    const command = [ENTER, this.folder, this.device, "sleep", "infinity"];
    const log = openSync(join(this.folder, "console.log"), "a");
    this.#unshare = spawn(
      "unshare",
      ["--mount", "--pid", "--fork", "--kill-child=SIGKILL", "bash", ...command],
      { stdio: ["ignore", log, log] },
    );
    for (let waited = 0; waited < BOOT_SECONDS_MAX * 20; waited++) {
      this.#init = childOf(this.#unshare.pid);
      if (this.#init !== undefined && nameOf(this.#init) === "sleep") return;
      if (this.#unshare.exitCode !== null) break;
      await sleep(50);
    }
    throw new Error(readFileSync(join(this.folder, "console.log"), "utf8"));
  }

  /** Ends everything that runs on the machine at once, and waits until the volume is free. */
  async powerOff(): Promise<void> {
    if (this.#unshare === undefined) return;
    const ended = this.#unshare.exitCode ?? once(this.#unshare, "exit");
    if (this.#init !== undefined) process.kill(this.#init, "SIGKILL");
    await ended;
    this.#unshare = undefined;
    this.#init = undefined;
    for (let waited = 0; waited < BOOT_SECONDS_MAX * 20; waited++) {
      try {
        await (await open(this.device, constants.O_RDONLY | constants.O_EXCL)).close();
        return;
      } catch {
        await sleep(50);
      }
    }
    throw new Error(`${this.device} is still in use`);
  }

  /** Another instance in the slot: an empty root, another id; the volume is free. */
  async replace(instance: string): Promise<void> {
    await this.powerOff();
    rmSync(join(this.folder, "root"), { recursive: true, force: true });
    this.write("instance", instance);
    rmSync(join(this.folder, `outside/volumes/${VOLUME}/holder`), { force: true });
  }

  /** Runs a command on the machine. */
  async run(...command: string[]): Promise<Ran> {
    const run = promisify(execFile);
    const options = { timeout: COMMAND_MS_MAX, maxBuffer: OUTPUT_BYTES_MAX };
    const merged = ["bash", "-c", 'exec "$@" 2>&1', "bash", ...command];
    try {
      const { stdout } = await run("nsenter", [...this.#inside(), ...merged], options);
      return { code: 0, output: stdout };
    } catch (error) {
      const failed = error as { code?: unknown; signal?: unknown; stdout?: string };
      const code = typeof failed.code === "number" ? failed.code : 137;
      return { code, output: failed.stdout ?? String(error) };
    }
  }

  /** What cloud-init does at the first boot. */
  async firstBoot(options: SlotSpecOptions): Promise<Ran> {
    const script = userData(await slotSpec(this.#brokerBin, options));
    mkdirSync(join(this.folder, "root", CLOUD_INIT_DIR), { recursive: true });
    writeFileSync(join(this.folder, "root", CLOUD_INIT_DIR, "part-001"), script, { mode: 0o700 });
    return await this.run(join(CLOUD_INIT_DIR, "part-001"));
  }

  /** What systemd does for a unit of type oneshot. */
  async start(unit: string): Promise<Ran> {
    const [command] = this.#commands(unit, "ExecStart");
    if (command === undefined) throw new Error(`${unit} starts nothing`);
    return await this.run(...command);
  }

  /** What systemd does for the broker's unit: root's part first, then the broker as its user. */
  async startBroker(): Promise<void> {
    for (const command of this.#commands("millrace.service", "ExecStartPre")) {
      const { code, output } = await this.run(...command);
      if (code !== 0) throw new Error(output);
    }
    const [command] = this.#commands("millrace.service", "ExecStart");
    if (command === undefined) throw new Error("the unit starts no broker");
    const user = ["setpriv", "--reuid=millrace", "--regid=millrace", "--clear-groups"];
    const log = openSync(join(this.folder, "broker.log"), "a");
    const broker = spawn("nsenter", [...this.#inside(), ...user, "--no-new-privs", ...command], {
      stdio: ["ignore", log, log],
    });
    broker.unref();
  }

  /** What systemd does after the broker has ended. */
  async brokerEnded(exitStatus: number | string): Promise<void> {
    for (const command of this.#commands("millrace.service", "ExecStopPost")) {
      const { code, output } = await this.run("env", `EXIT_STATUS=${exitStatus}`, ...command);
      if (code !== 0) throw new Error(output);
    }
  }

  /** TCP ports that the machine's programs listen on. */
  async listening(): Promise<number[]> {
    const { output } = await this.run("bash", "-c", LISTENING);
    return output
      .split("\n")
      .filter((line) => line !== "")
      .map(Number);
  }

  brokerLog(): string {
    return readFileSync(join(this.folder, "broker.log"), "utf8");
  }

  /** SHA-256 of every byte of the volume. The machine must be off, or not have it mounted. */
  async checksum(): Promise<string> {
    execFileSync("blockdev", ["--flushbufs", this.device]);
    const hash = createHash("sha256");
    for await (const chunk of createReadStream(this.device, { highWaterMark: 4 << 20 })) {
      hash.update(chunk as Buffer);
    }
    return hash.digest("hex");
  }

  /** What EC2 does when a volume is made larger. */
  grow(mib: number): void {
    execFileSync("truncate", ["-s", `${mib}M`, join(this.folder, "volume.img")]);
    execFileSync("losetup", ["--set-capacity", this.device]);
  }

  async remove(): Promise<void> {
    await this.powerOff();
    execFileSync("losetup", ["--detach", this.device]);
    rmSync(this.folder, { recursive: true, force: true });
  }

  #inside(): string[] {
    if (this.#init === undefined) throw new Error("the machine is off");
    const target = ["--target", String(this.#init), "--mount", "--pid"];
    return [...target, "--root", "--wd", "env", "-i", PATH, "HOME=/root"];
  }

  #commands(unit: string, key: string): string[][] {
    const file = join(this.folder, "root/etc/systemd/system", unit);
    return readFileSync(file, "utf8")
      .split("\n")
      .filter((line) => line.startsWith(`${key}=`))
      .map((line) => line.slice(key.length + 1).replace(/^\+/, ""))
      .map((command) => command.split(" "));
  }
}

/** All unit files that the script wrote, as paths of the machine. */
export async function unitsOf(machine: SlotMachine): Promise<string[]> {
  const folder = "/etc/systemd/system";
  const names = await readdir(join(machine.folder, "root", folder));
  return names.map((name) => join(folder, name));
}

function childOf(pid: number | undefined): number | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
    return text === "" ? undefined : Number(text.split(" ")[0]);
  } catch {
    return undefined;
  }
}

function nameOf(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/comm`, "utf8").trim();
  } catch {
    return undefined;
  }
}
