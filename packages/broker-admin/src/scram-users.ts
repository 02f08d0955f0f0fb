/** Users' SCRAM credentials in Kafka's admin protocol (KIP-554); the client library has the bare messages. */
import { pbkdf2, randomBytes } from "node:crypto";
import { promisify } from "node:util";
import type { ClusterUser, ScramMechanism } from "@millrace/domain";
import {
  type Admin,
  alterUserScramCredentialsV0,
  describeUserScramCredentialsV0,
  ScramMechanisms,
} from "@platformatic/kafka";
import { bootstrapConnection } from "./bootstrap-connection.ts";

/** Twice Kafka's default; the broker takes 4,096 to 16,384. */
const ITERATIONS = 8_192;
const SALT_BYTES = 32;

const derive = promisify(pbkdf2);

interface Hash {
  readonly code: number;
  readonly digest: string;
  readonly bytes: number;
}

const HASHES: Readonly<Record<ScramMechanism, Hash>> = {
  "SCRAM-SHA-256": { code: ScramMechanisms.SCRAM_SHA_256, digest: "sha256", bytes: 32 },
  "SCRAM-SHA-512": { code: ScramMechanisms.SCRAM_SHA_512, digest: "sha512", bytes: 64 },
};

/** Every user in order of its name, or only those that are named. A name that no user has is an error. */
export async function describeUsers(
  admin: Admin,
  names: readonly string[] | null,
): Promise<ClusterUser[]> {
  const connection = await bootstrapConnection(admin);
  const asked = names?.map((name) => ({ name })) ?? null;
  const { results } = await describeUserScramCredentialsV0.api.async(connection, asked);
  return results.map(({ user, credentialInfos }) => {
    const codes = new Set<number>(credentialInfos.map(({ mechanism }) => mechanism));
    const known = Object.entries(HASHES) as [ScramMechanism, Hash][];
    return {
      name: user,
      mechanisms: known.filter(([, { code }]) => codes.has(code)).map(([mechanism]) => mechanism),
    };
  });
}

/** Gives the user this password with each of the mechanisms, and makes the user where there is none. */
export async function putPassword(
  admin: Admin,
  name: string,
  password: string,
  mechanisms: readonly ScramMechanism[],
): Promise<void> {
  const upsertions = await Promise.all(
    mechanisms.map(async (mechanism) => {
      const { code, digest, bytes } = HASHES[mechanism];
      const salt = randomBytes(SALT_BYTES);
      const saltedPassword = await derive(password, salt, ITERATIONS, bytes, digest);
      return { name, mechanism: code, iterations: ITERATIONS, salt, saltedPassword };
    }),
  );
  const connection = await bootstrapConnection(admin);
  await alterUserScramCredentialsV0.api.async(connection, [], upsertions);
}

/** Takes these credentials away; without any left there is no user. */
export async function removeCredentials(
  admin: Admin,
  name: string,
  mechanisms: readonly ScramMechanism[],
): Promise<void> {
  const deletions = mechanisms.map((mechanism) => ({ name, mechanism: HASHES[mechanism].code }));
  const connection = await bootstrapConnection(admin);
  await alterUserScramCredentialsV0.api.async(connection, deletions, []);
}
