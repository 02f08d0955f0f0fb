/** Users' SCRAM credentials over a broker's admin HTTP. Passwords are salted and hashed here: no broker sees one. */
import { pbkdf2, randomBytes } from "node:crypto";
import { promisify } from "node:util";
import { type ClusterUser, SCRAM_MECHANISMS, type ScramMechanism } from "@millrace/domain";
import { z } from "zod";

/** Twice Kafka's default; the broker takes 4,096 to 16,384. */
const ITERATIONS = 8_192;
const SALT_BYTES = 32;

const derive = promisify(pbkdf2);

const HASHES: Readonly<
  Record<ScramMechanism, { readonly digest: string; readonly bytes: number }>
> = {
  "SCRAM-SHA-256": { digest: "sha256", bytes: 32 },
  "SCRAM-SHA-512": { digest: "sha512", bytes: 64 },
};

/** What a broker answers at `/v1/users/{user}`. */
export const UserAnswer = z.object({
  name: z.string(),
  credentials: z.array(z.object({ mechanism: z.string() })),
});

/** What a broker answers at `/v1/users`. */
export const UsersAnswer = z.object({ users: z.array(UserAnswer) });

/** Mechanisms that are not ours are left out. */
export function userOf({ name, credentials }: z.output<typeof UserAnswer>): ClusterUser {
  const names = new Set(credentials.map(({ mechanism }) => mechanism));
  return { name, mechanisms: SCRAM_MECHANISMS.filter((mechanism) => names.has(mechanism)) };
}

/** A password as brokers store it, salted and hashed for one mechanism. As good as the password: never log it. */
export async function credentialOf(password: string, mechanism: ScramMechanism) {
  const { digest, bytes } = HASHES[mechanism];
  const salt = randomBytes(SALT_BYTES);
  const salted = await derive(password, salt, ITERATIONS, bytes, digest);
  return {
    mechanism,
    iterations: ITERATIONS,
    salt: salt.toString("base64"),
    salted_password: salted.toString("base64"),
  };
}
