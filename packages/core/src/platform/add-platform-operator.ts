import type { Identity } from "@millrace/auth";
import type { PlatformOperators } from "@millrace/db";
import { newPassword } from "../tenant/new-password.ts";

export interface PlatformOperatorTools {
  readonly operators: PlatformOperators;
  readonly identity: Pick<Identity, "createUser" | "setPassword">;
}

/**
 * Creates the account of a platform operator; the answer is its password. `email` is in lower case. Throws
 * `PlatformOperatorRefused` where the address has an account.
 */
export async function addPlatformOperator(
  { operators, identity }: PlatformOperatorTools,
  email: string,
): Promise<string> {
  const password = newPassword();
  await operators.add(email, (store) =>
    identity.createUser({ email, name: "Platform operator", password }, store),
  );
  return password;
}
