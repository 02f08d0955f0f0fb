/** A gateway as a process of its own, for tests that kill it. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { TOKEN } from "./fixture.ts";

export interface GatewaySite {
  readonly database: { readonly gatewayUrl: string };
  readonly tlsFile: string;
  /** What ends the gateway with the test. */
  onEnd(work: () => unknown): void;
}

export interface GatewayProcess {
  readonly brokerPort: number;
  readonly internalUrl: string;
  kill(signal: NodeJS.Signals): Promise<void>;
}

/** Resolves once it takes brokers. Ports of 0 are free ones. */
export async function startGatewayProcess(
  site: GatewaySite,
  ports: { readonly broker: number; readonly internal: number } = { broker: 0, internal: 0 },
): Promise<GatewayProcess> {
  const child = spawn(process.execPath, [join(import.meta.dirname, "../src/main.ts")], {
    stdio: ["ignore", "pipe", "inherit"],
    env: {
      PATH: process.env.PATH ?? "",
      DATABASE_URL: site.database.gatewayUrl,
      MILLRACE_GATEWAY_LISTEN: `127.0.0.1:${ports.broker}`,
      MILLRACE_GATEWAY_INTERNAL_LISTEN: `127.0.0.1:${ports.internal}`,
      MILLRACE_GATEWAY_TOKEN: TOKEN,
      MILLRACE_GATEWAY_TLS_FILE: site.tlsFile,
    },
  });
  site.onEnd(() => kill(child, "SIGKILL"));
  for await (const line of createInterface({ input: child.stdout })) {
    const { msg, brokerPort, internalUrl } = JSON.parse(line);
    if (msg !== "gateway started") continue;
    child.stdout.resume();
    return { brokerPort, internalUrl, kill: (signal) => kill(child, signal) };
  }
  throw new Error("the gateway ended");
}

async function kill(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill(signal);
  await exited;
}
