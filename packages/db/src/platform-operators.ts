import pg from "pg";

/** The command was wrong; the message says what to do. */
export class PlatformOperatorRefused extends Error {
  override readonly name = "PlatformOperatorRefused";
}

/** Who may run the installation, as the owner of the tables sets it. For the command line alone. */
export class PlatformOperators {
  readonly #client: pg.Client;

  private constructor(client: pg.Client) {
    this.#client = client;
  }

  /** `ownerUrl` is the address that migrations have. */
  static async open(ownerUrl: string): Promise<PlatformOperators> {
    const client = new pg.Client({ connectionString: ownerUrl });
    await client.connect();
    await client.query("SELECT set_config('app.owner_path', 'on', false)");
    return new PlatformOperators(client);
  }

  async list(): Promise<string[]> {
    const { rows } = await this.#client.query<{ email: string }>(
      'SELECT u.email FROM platform_operator p JOIN "user" u ON u.id = p.user_id ORDER BY 1',
    );
    return rows.map(({ email }) => email);
  }

  /** False where the address, in lower case, has no account. Throws {@link PlatformOperatorRefused} for a member. */
  async add(email: string): Promise<boolean> {
    const { rows } = await this.#client.query<{ id: string; member: boolean }>(
      'SELECT u.id, EXISTS (SELECT 1 FROM member m WHERE m.user_id = u.id) AS member FROM "user" u WHERE u.email = $1',
      [email],
    );
    const [user] = rows;
    if (user === undefined) return false;
    if (user.member) {
      throw new PlatformOperatorRefused(
        `${email} is a member of an organization: a platform operator needs an account of its own.`,
      );
    }
    await this.#client.query(
      "INSERT INTO platform_operator (user_id) VALUES ($1) ON CONFLICT DO NOTHING",
      [user.id],
    );
    return true;
  }

  /** Its impersonations end with it. Throws {@link PlatformOperatorRefused}. */
  async remove(email: string): Promise<void> {
    const { rowCount } = await this.#client.query(
      'DELETE FROM platform_operator p USING "user" u WHERE u.id = p.user_id AND u.email = $1',
      [email],
    );
    if (rowCount === 0) throw new PlatformOperatorRefused(`${email} is no platform operator.`);
  }

  async close(): Promise<void> {
    await this.#client.end();
  }
}
