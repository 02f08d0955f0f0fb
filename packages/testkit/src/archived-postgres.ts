/**
 * A PostgreSQL that archives its write-ahead log, with a base backup, as OPERATIONS.md tells operators to run it: it can be
 * destroyed and restored to a point in time. Files are copied, because the embedded package has no `pg_basebackup`.
 */
import { appendFile, chmod, cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type RunningPostgres, startPostgres } from "@millrace/launcher";
import pg from "pg";
import { databaseUrl, migrate, roleUrl } from "./test-server.ts";

const DATABASE = "millrace";
const WAIT_MS_MAX = 120_000;
const POLL_MS = 100;

export class ArchivedPostgres {
  readonly #root: string;
  #server: RunningPostgres;

  private constructor(root: string, server: RunningPostgres) {
    this.#root = root;
    this.#server = server;
  }

  /** A migrated database without rows. */
  static async start(): Promise<ArchivedPostgres> {
    const root = await mkdtemp(join(tmpdir(), "millrace-archived-"));
    await mkdir(join(root, "archive"));
    const first = await startPostgres({ dir: join(root, "data") });
    await first.stop();
    const archive = join(root, "archive");
    await appendFile(
      join(root, "data/postgresql.conf"),
      `\narchive_mode = on\narchive_command = 'test ! -f "${archive}/%f" && cp "%p" "${archive}/%f"'\n`,
    );
    const server = await startPostgres({ dir: join(root, "data") });
    await migrate(server.url, DATABASE);
    return new ArchivedPostgres(root, server);
  }

  /** The database as its owner sees it. It has another port after a restore. */
  get url(): string {
    return databaseUrl(this.#server.url, DATABASE);
  }

  get apiUrl(): string {
    return roleUrl(this.#server.url, "millrace_api", DATABASE);
  }

  /** Copies the data folder while the server goes on writing. */
  async backUp(): Promise<void> {
    const base = join(this.#root, "base");
    // Start and stop have to be of one session.
    await this.#ask(async (client) => {
      await client.query("SELECT pg_backup_start('drill', true)");
      await cp(join(this.#root, "data"), base, {
        recursive: true,
        filter: (path) => !path.includes("/pg_wal/") && basename(path) !== "postmaster.pid",
      });
      const { rows } = await client.query("SELECT labelfile FROM pg_backup_stop()");
      await writeFile(join(base, "backup_label"), rows[0].labelfile);
    });
  }

  /** The time of the server, which a restore can name. */
  async now(): Promise<string> {
    return this.#ask(async (client) => {
      const { rows } = await client.query("SELECT clock_timestamp()::text AS now");
      return rows[0].now;
    });
  }

  /** Kills the server and removes its data folder, once what was committed until now is archived. */
  async destroy(): Promise<void> {
    await this.#ask(async (client) => {
      const { rows } = await client.query("SELECT pg_walfile_name(pg_switch_wal()) AS name");
      const { name } = rows[0];
      await until("archive its log", async () => {
        const archived = await client.query(
          "SELECT last_archived_wal AS last FROM pg_stat_archiver",
        );
        return (archived.rows[0].last ?? "") >= name;
      });
    });
    process.kill(this.#server.pid, "SIGQUIT");
    await until("exit", async () => !isAlive(this.#server.pid));
    await rm(join(this.#root, "data"), { recursive: true, force: true });
  }

  /** Puts the base backup back and replays the archive up to `time`. */
  async restoreTo(time: string): Promise<void> {
    const data = join(this.#root, "data");
    await cp(join(this.#root, "base"), data, { recursive: true });
    await mkdir(join(data, "pg_wal"), { recursive: true });
    await chmod(data, 0o700);
    await chmod(join(data, "pg_wal"), 0o700);
    await writeFile(join(data, "recovery.signal"), "");
    await appendFile(
      join(data, "postgresql.auto.conf"),
      [
        `restore_command = 'cp "${join(this.#root, "archive")}/%f" "%p"'`,
        `recovery_target_time = '${time}'`,
        "recovery_target_action = 'promote'",
        "",
      ].join("\n"),
    );
    this.#server = await startPostgres({ dir: data });
    await this.#ask((client) =>
      until("recover", async () => {
        const { rows } = await client.query("SELECT pg_is_in_recovery() AS recovering");
        return rows[0].recovering === false;
      }),
    );
  }

  /** Stops the server and removes everything. */
  async stop(): Promise<void> {
    await this.#server.stop();
    await rm(this.#root, { recursive: true, force: true });
  }

  async #ask<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
    const client = new pg.Client({ connectionString: this.url });
    await client.connect();
    try {
      return await work(client);
    } finally {
      await client.end();
    }
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function until(what: string, isDone: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + WAIT_MS_MAX;
  while (!(await isDone())) {
    if (Date.now() > deadline) {
      throw new Error(`PostgreSQL did not ${what} within ${WAIT_MS_MAX} ms`);
    }
    await sleep(POLL_MS);
  }
}
