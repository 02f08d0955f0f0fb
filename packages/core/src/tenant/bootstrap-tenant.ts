import { apiKeyHash, type Identity, newApiKeySecret } from "@millrace/auth";
import type { Database, TenantDatabase } from "@millrace/db";
import { type Clock, isLiveKey, newId, type OrganizationId, type UserId } from "@millrace/domain";
import { newPassword } from "./new-password.ts";

const API_KEY_NAME = "first key";

export interface BootstrapTools {
  readonly db: Database;
  readonly clock: Clock;
  readonly identity: Identity;
}

export interface BootstrapInput {
  readonly email: string;
  readonly userName: string;
  readonly organization: { readonly name: string; readonly slug: string };
  readonly environment: string;
  /** What an earlier run answered; kept where it still works. */
  readonly known?: { readonly password?: string; readonly apiKey?: string };
}

export interface BootstrapAnswer {
  readonly email: string;
  readonly password: string;
  readonly apiKey: string;
}

/**
 * Makes sure that there is a first owner who owns a first tenant with an environment and an API
 * key, and answers with credentials that work. Run again, it makes nothing twice: a known password
 * and key are kept while they are good, and replaced where they are not.
 */
export async function bootstrapTenant(
  tools: BootstrapTools,
  input: BootstrapInput,
): Promise<BootstrapAnswer> {
  const known = await tools.db.signIn.findBySlug(input.organization.slug);
  const id = known?.id ?? newId("org");
  const tenant = tools.db.tenant(id);
  const { organizations } = tenant;
  if (!known) await organizations.create({ id, ...input.organization });
  await organizations.ensureEnvironment(id, input.environment);
  const { userId, password } = await ensureOperator(tools, tenant, input);
  await organizations.putMember(id, userId, "owner");
  const apiKey = await ensureApiKey(tools, tenant, id, userId, input.known?.apiKey);
  return { email: input.email, password, apiKey };
}

async function ensureOperator(
  { identity }: BootstrapTools,
  { organizations }: TenantDatabase,
  { email, userName, known }: BootstrapInput,
): Promise<{ userId: UserId; password: string }> {
  const user = await organizations.findUserByEmail(email);
  const fresh = newPassword();
  if (!user) {
    const password = known?.password ?? fresh;
    return { userId: await identity.createUser({ email, name: userName, password }), password };
  }
  if (known?.password && (await identity.verifyPassword(user.id, known.password))) {
    return { userId: user.id, password: known.password };
  }
  await identity.setPassword(user.id, fresh);
  return { userId: user.id, password: fresh };
}

async function ensureApiKey(
  { db, clock }: BootstrapTools,
  tenant: TenantDatabase,
  organizationId: OrganizationId,
  createdBy: UserId,
  known: string | undefined,
): Promise<string> {
  const hash = apiKeyHash(known ?? "");
  const key = hash && (await db.signIn.findBySecret(hash));
  const isOurs = key?.organizationId === organizationId;
  if (known && isOurs && isLiveKey(key, clock.now())) return known;
  const { secret, hash: secretHash, hint } = newApiKeySecret();
  await tenant.apiKeys.create({
    organizationId,
    name: API_KEY_NAME,
    role: "owner",
    hint,
    secretHash,
    createdBy,
  });
  return secret;
}
