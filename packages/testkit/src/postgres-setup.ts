import { announceServer, sharedServerUrl } from "./env.ts";
import { startTestServer } from "./test-server.ts";

/** vitest's global setup: one PostgreSQL for the whole run, stopped at its end. */
export default async function setup(): Promise<() => Promise<void>> {
  if (sharedServerUrl() !== undefined) return async () => {};
  const server = await startTestServer();
  announceServer(server.url);
  return async () => {
    announceServer(undefined);
    await server.stop();
  };
}
