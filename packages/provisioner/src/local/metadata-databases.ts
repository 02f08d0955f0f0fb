/**
 * The databases in which the brokers of a cluster share their metadata: one per cluster in the installation's PostgreSQL, each
 * with a role of its own that owns it and may connect to no other one.
 */
import pg from "pg";
import { ProvisionError } from "../cluster-driver.ts";

/** Each of nine brokers has up to ten connections; the rest is for whoever looks. */
const CONNECTIONS_MAX = 100;
const CONNECT_TIMEOUT_MS = 10_000;
const STATEMENT_TIMEOUT_MS = 60_000;
/** Of databases, PostgreSQL makes one at a time from a template, and refuses a second one; so whoever makes any takes turns. */
const TURN = "millrace metadata databases";

export interface MetadataDatabases {
  /** Makes role and database of the cluster, as far as they are not there. Throws `ProvisionError` `apply_failed`. */
  ensure(clusterId: string, password: string): Promise<void>;
  /** Removes both, whoever is connected. Throws `ProvisionError` `apply_failed`. */
  drop(clusterId: string): Promise<void>;
  /** Where brokers connect, with the password: never log it. */
  urlOf(clusterId: string, password: string): string;
}

export class PostgresMetadataDatabases implements MetadataDatabases {
  readonly #url: string;

  /** `url` is that of a role that may create roles and databases, in any database of the server. */
  constructor(url: string) {
    this.#url = url;
  }

  async ensure(clusterId: string, password: string): Promise<void> {
    await this.#run(clusterId, "made", async (client, name) => {
      const role = client.escapeIdentifier(name);
      const isThere = async (query: string) => (await client.query(query, [name])).rowCount !== 0;
      if (!(await isThere("SELECT 1 FROM pg_roles WHERE rolname = $1"))) {
        await client.query(`CREATE ROLE ${role}`);
      }
      // Statements about roles take no parameters; the literal is quoted by the driver.
      const rights = `LOGIN PASSWORD ${client.escapeLiteral(password)} CONNECTION LIMIT ${CONNECTIONS_MAX}`;
      await client.query(`ALTER ROLE ${role} ${rights}`);
      // Only a member of the role may give it a database.
      await client.query(`GRANT ${role} TO CURRENT_USER`);
      if (!(await isThere("SELECT 1 FROM pg_database WHERE datname = $1"))) {
        await client.query(`CREATE DATABASE ${role} OWNER ${role}`);
      }
      await client.query(`REVOKE ALL ON DATABASE ${role} FROM PUBLIC`);
    });
  }

  async drop(clusterId: string): Promise<void> {
    await this.#run(clusterId, "removed", async (client, name) => {
      const role = client.escapeIdentifier(name);
      await client.query(`DROP DATABASE IF EXISTS ${role} WITH (FORCE)`);
      await client.query(`DROP ROLE IF EXISTS ${role}`);
    });
  }

  urlOf(clusterId: string, password: string): string {
    const url = new URL(this.#url);
    const name = nameOf(clusterId);
    url.username = name;
    url.password = password;
    url.pathname = `/${name}`;
    return url.toString();
  }

  async #run(
    clusterId: string,
    done: string,
    work: (client: pg.Client, name: string) => Promise<void>,
  ): Promise<void> {
    const client = new pg.Client({
      connectionString: this.#url,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      statement_timeout: STATEMENT_TIMEOUT_MS,
    });
    // A connection that breaks between two statements fails the next one.
    client.on("error", () => {});
    try {
      await client.connect();
      // Until the connection ends.
      await client.query("SELECT pg_advisory_lock(hashtextextended($1, 0))", [TURN]);
      await work(client, nameOf(clusterId));
    } catch (cause) {
      const message = `the metadata database of cluster ${clusterId} cannot be ${done}`;
      const detail = cause instanceof Error ? cause.message : String(cause);
      throw new ProvisionError("apply_failed", message, { cause, detail });
    } finally {
      await client.end().catch(() => {});
    }
  }
}

/** Of database and role. PostgreSQL cuts names of more than 63 bytes; ids are shorter. */
function nameOf(clusterId: string): string {
  return `metadata_${clusterId.toLowerCase()}`;
}
