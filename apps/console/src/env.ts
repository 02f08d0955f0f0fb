/** The console server's environment. */

/** Where the API answers. Read at run time: one build serves every installation. */
export function apiUrl(): string {
  return process.env.MILLRACE_API_URL ?? "http://localhost:4000";
}

/** Whether browsers reach the console by https. */
export function isServedOverTls(): boolean {
  return process.env.MILLRACE_CONSOLE_URL?.startsWith("https:") ?? false;
}
