import { newPassword } from "../tenant/new-password.ts";
import type { PlatformOperatorTools } from "./add-platform-operator.ts";

/**
 * Gives a platform operator another password, which is the answer, and ends their sessions and second factor. `email` is in
 * lower case. Throws `PlatformOperatorRefused` for anybody else.
 */
export async function resetPlatformOperator(
  { operators, identity }: PlatformOperatorTools,
  email: string,
): Promise<string> {
  const password = newPassword();
  await operators.reset(email, (id, store) => identity.setPassword(id, password, store));
  return password;
}
