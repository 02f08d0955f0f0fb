/** Delegation tokens (KIP-48) with Kafka's own tool and client. */
import { kafkaTool } from "./java.ts";
import { java, javaConfig, type SignIn } from "./signed-in.ts";

const RENEWER = "User:bob";
const LIFETIME_MS = 3_600_000;

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
  const bearer: SignIn = {
    ...signIn,
    mechanism: "SCRAM-SHA-512",
    username,
    password,
    isToken: true,
  };
  const topics = (await java.topics(bearer)).filter((line) => line !== "");
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
