import type { UserId } from "@millrace/domain";
import { type Client, createClient } from "./client.ts";
import type { IdentityStore } from "./database.ts";
import type { PrismaClient } from "./generated/client.ts";

/** The command was wrong; the message says what to do. */
export class PlatformOperatorRefused extends Error {
  override readonly name = "PlatformOperatorRefused";
}

/** Who may run the installation, as the owner of the tables sets it. For the command line alone. */
export class PlatformOperators {
  readonly #client: PrismaClient;

  private constructor(client: PrismaClient) {
    this.#client = client;
  }

  /** `ownerUrl` is the address that migrations have. Throws {@link PlatformOperatorRefused} for that of another role. */
  static async open(ownerUrl: string): Promise<PlatformOperators> {
    const client = createClient(ownerUrl, 1);
    try {
      const [row] = await client.$queryRaw<{ role: string; mayWrite: boolean | null }[]>`
        SELECT current_user::text AS role,
          has_table_privilege(to_regclass('platform_operator'), 'INSERT') AS "mayWrite"`;
      if (row?.mayWrite) return new PlatformOperators(client);
      throw new PlatformOperatorRefused(
        `DATABASE_URL is the address of the role ${row?.role}, which must not change platform operators. Set it to the address of the role that owns the tables and ran the migrations.`,
      );
    } catch (error) {
      await client.$disconnect();
      throw error;
    }
  }

  async list(): Promise<string[]> {
    const rows = await this.#client.$queryRaw<{ email: string }[]>`
      SELECT u.email FROM platform_operator p JOIN "user" u ON u.id = p.user_id ORDER BY 1`;
    return rows.map(({ email }) => email);
  }

  /**
   * `createUser` creates the account in the same transaction. Throws {@link PlatformOperatorRefused} for an address, in
   * lower case, that has an account: whoever has invited that address may know the password.
   */
  async add(email: string, createUser: (store: IdentityStore) => Promise<UserId>): Promise<void> {
    await this.#transaction(async (tx) => {
      const [taken] = await tx.$queryRaw<object[]>`SELECT 1 FROM "user" WHERE email = ${email}`;
      if (taken) {
        throw new PlatformOperatorRefused(
          `${email} already has an account, and somebody else may know its password. Use an address without an account. To give a platform operator a new password, run reset.`,
        );
      }
      const id = await createUser(tx as unknown as IdentityStore);
      await tx.$executeRaw`INSERT INTO platform_operator (user_id) VALUES (${id})`;
    });
  }

  /**
   * Removes the operator's second factor; `setPassword` sets a password and ends the sessions, in the same transaction.
   * Throws {@link PlatformOperatorRefused}.
   */
  async reset(
    email: string,
    setPassword: (id: UserId, store: IdentityStore) => Promise<void>,
  ): Promise<void> {
    await this.#transaction(async (tx) => {
      const [found] = await tx.$queryRaw<{ id: UserId }[]>`
        SELECT u.id FROM platform_operator p JOIN "user" u ON u.id = p.user_id WHERE u.email = ${email}`;
      if (!found) throw notAnOperator(email);
      await tx.twoFactor.deleteMany({ where: { userId: found.id } });
      await tx.user.update({ where: { id: found.id }, data: { twoFactorEnabled: false } });
      await setPassword(found.id, tx as unknown as IdentityStore);
    });
  }

  /** Its impersonations end with it; the account stays, without any rights. Throws {@link PlatformOperatorRefused}. */
  async remove(email: string): Promise<void> {
    const count = await this.#client.$executeRaw`
      DELETE FROM platform_operator p USING "user" u WHERE u.id = p.user_id AND u.email = ${email}`;
    if (count === 0) throw notAnOperator(email);
  }

  async close(): Promise<void> {
    await this.#client.$disconnect();
  }

  #transaction(work: (tx: Client) => Promise<void>): Promise<void> {
    return this.#client.$transaction(async (tx) => {
      await tx.$executeRaw`SELECT set_config('app.owner_path', 'on', true)`;
      await work(tx);
    });
  }
}

function notAnOperator(email: string): PlatformOperatorRefused {
  return new PlatformOperatorRefused(`${email} is not a platform operator.`);
}
