/** Delegation tokens (KIP-48): Kafka's own tool, what a token is good for, and what is refused. */
import {
  Connection,
  createDelegationTokenV3,
  describeDelegationTokenV3,
  expireDelegationTokenV2,
  renewDelegationTokenV2,
  ResponseError,
} from "@platformatic/kafka";
import { kafkaTool } from "./java.ts";
import { java, javaConfig, platformaticOptions, type SignIn } from "./signed-in.ts";

const RENEWER = "User:bob";
const LIFETIME_MS = 3_600_000;
/** Both brokers work within it. */
const EXPIRY_MS = 600_000;

/** What the tool prints from a token's creation to its end, and the topics that a Java client sees by the token. */
export interface TokenLife {
  created: string[];
  described: string[];
  renewed: string[];
  topics: string[];
  expired: string[];
  gone: string[];
}

/** Has a token created, shown, used and expired by Kafka's own tool and client. */
export async function delegationTokens(signIn: SignIn): Promise<TokenLife> {
  const config = ["--command-config", javaConfig(signIn)];
  const run = async (...command: string[]) => {
    const printed: string[] = [];
    const args = ["--bootstrap-server", signIn.bootstrap, ...config, ...command];
    await kafkaTool("DelegationTokenCommand", args, { onLine: (line) => printed.push(line) });
    return printed;
  };
  const lifetime = ["--max-life-time-period", String(LIFETIME_MS)];
  const created = await run("--create", "--renewer-principal", RENEWER, ...lifetime);
  const [username, password] = token(created);
  const described = await run("--describe");
  const renewed = await run("--renew", "--hmac", password, "--renew-time-period", "60000");
  const bearer: SignIn = { ...signIn, mechanism: "SCRAM-SHA-512", username, password, isToken: true };
  const topics = await java.topics(bearer);
  const expired = await run("--expire", "--hmac", password, "--expiry-time-period", "-1");
  const gone = await run("--describe");
  const shown = (lines: string[]) => lines.map((line) => masked(line, username, password));
  return {
    created: shown(created),
    described: shown(described),
    renewed: shown(renewed),
    topics,
    expired: shown(expired),
    gone: shown(gone),
  };
}

/** Id and HMAC of the token that the tool prints in the last line of a table. */
function token(printed: string[]): [string, string] {
  const row = printed.findLast((line) => line.includes("User:"))?.split(/\s+/);
  const [username, password] = row ?? [];
  if (username === undefined || password === undefined) throw new Error(printed.join("\n"));
  return [username, password];
}

/** Without what each broker chooses for itself: ids, HMACs, and times. */
function masked(line: string, id: string, hmac: string): string {
  return line
    .replaceAll(id, "ID")
    .replaceAll(hmac, "HMAC")
    .replaceAll(/\d{4}-\d{2}-\d{2}T\d{2}:\d{2}/g, "TIME")
    .replaceAll(/\d{13}/g, "TIME")
    .replaceAll(/ +/g, " ");
}

/** What the broker answers to each request that is about tokens, by the request; times relative to the token's creation. */
export async function refusedTokens(signIn: SignIn): Promise<Record<string, unknown>> {
  const { connection, close } = await connect(signIn);
  const answers: Record<string, unknown> = {};
  const ask = async (what: string, asked: Promise<object>) => {
    answers[what] = await asked.then(plain, (error: unknown) => errorOf(error));
  };
  const renewers = [{ principalType: "User", principalName: "bob" }];
  const hour = BigInt(LIFETIME_MS);
  const nobody = Buffer.from("nobody's");
  try {
    const create = (type: string | null, name: string | null, others = renewers) =>
      createDelegationTokenV3.async(connection, type, name, others, hour);
    const own = await create(null, null);
    const alices = await create("User", "alice");
    await ask("create own", create("User", signIn.username));
    await ask("create for alice", create("User", "alice"));
    await ask("create for eve", create("User", "eve"));
    await ask("create for a group", create("Group", "eve"));
    const group = [{ principalType: "Group", principalName: "admins" }];
    await ask("create with a group as renewer", create(null, null, group));
    const renew = (hmac: Buffer, ms: bigint) => renewDelegationTokenV2.async(connection, hmac, ms);
    const expire = (hmac: Buffer, ms: bigint) => expireDelegationTokenV2.async(connection, hmac, ms);
    await ask("renew", renew(own.hmac, -1n));
    await ask("renew beyond the maximum", renew(own.hmac, 10n * hour));
    await ask("renew alice's", renew(alices.hmac, -1n));
    await ask("renew nobody's", renew(nobody, -1n));
    await ask("expire alice's", expire(alices.hmac, -1n));
    await ask("expire nobody's", expire(nobody, -1n));
    await ask("expire later", expire(own.hmac, BigInt(EXPIRY_MS)));
    const owner = (principalName: string) => [{ principalType: "User", principalName }];
    const describe = async (...asked: Parameters<typeof describeDelegationTokenV3.async>[1][]) => {
      const { errorCode, tokens } = await describeDelegationTokenV3.async(connection, asked[0] ?? null);
      return { errorCode, tokens: tokens.map(plain).toSorted(byText) };
    };
    await ask("describe", describe(null));
    await ask("describe alice's", describe(owner("alice")));
    await ask("describe a renewer's", describe(owner("bob")));
    await ask("describe eve's", describe(owner("eve")));
    await ask("describe nobody's", describe([]));
    await ask("expire now", expire(own.hmac, -1n));
    await ask("expire again", expire(own.hmac, -1n));
  } finally {
    await close();
  }
  return answers;
}

function byText(a: object, b: object): number {
  return JSON.stringify(a) < JSON.stringify(b) ? -1 : 1;
}

/** Lengths for what each broker chooses for itself, and times in minutes from now. */
function plain(answer: object): object {
  const shown = Object.entries(answer).map(([name, value]) => {
    if (Buffer.isBuffer(value)) return [name, `${value.length} bytes`];
    if (name === "tokenId") return [name, `${String(value).length} characters`];
    if (typeof value !== "bigint") return [name, value];
    const isTime = value > 1_000_000_000_000n;
    return [name, isTime ? Math.round((Number(value) - Date.now()) / 600_000) : Number(value)];
  });
  return Object.fromEntries(shown.filter(([name]) => name !== "throttleTimeMs"));
}

function errorOf(error: unknown): unknown {
  if (!(error instanceof ResponseError)) throw error;
  const { response, errors } = error as ResponseError & { response?: object };
  return { errors: errors.map((one) => ("apiId" in one ? one.apiId : one.message)), ...response };
}

async function connect(signIn: SignIn) {
  const { sasl, tls, clientId } = platformaticOptions(signIn) as {
    clientId: string;
    sasl: NonNullable<ConstructorParameters<typeof Connection>[1]>["sasl"];
    tls?: object;
  };
  const connection = new Connection(clientId, { sasl, ...(tls ? { tls } : {}) });
  const [host = "", port = ""] = signIn.bootstrap.split(":");
  await connection.connect(host, Number(port));
  return { connection, close: () => connection.close() };
}
