const SERVER_URL = "MILLRACE_TEST_POSTGRES_URL";

/** Address of the PostgreSQL that serves the whole test run, where one does. */
export function sharedServerUrl(): string | undefined {
  return process.env[SERVER_URL];
}

/** Announces the run's server to test processes that are started from now on. */
export function announceServer(url: string | undefined): void {
  if (url === undefined) delete process.env[SERVER_URL];
  else process.env[SERVER_URL] = url;
}

/** Environment of a child process: ours, with `extra`. */
export function childEnvironment(extra: Record<string, string>): NodeJS.ProcessEnv {
  return { ...process.env, ...extra };
}
