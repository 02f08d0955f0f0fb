/** Known vulnerabilities of packages, from OSV (https://osv.dev), which has those of GitHub, RustSec and Go. */

/** What OSV takes in one request. */
const BATCH_MAX = 1_000;
const TIMEOUT_MS = 30_000;

export interface Finding {
  readonly purl: string;
  readonly ids: readonly string[];
}

interface BatchAnswer {
  readonly results: readonly { readonly vulns?: readonly { readonly id: string }[] }[];
}

/** OSV does not answer as documented, or not at all: nothing is known about the packages. */
export class OsvUnreachable extends Error {
  override readonly name = "OsvUnreachable";
}

/** Packages with known vulnerabilities. Throws `OsvUnreachable`. */
export async function findVulnerable(
  purls: readonly string[],
  ask: typeof fetch = fetch,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (let from = 0; from < purls.length; from += BATCH_MAX) {
    const batch = purls.slice(from, from + BATCH_MAX);
    const { results } = await post(batch, ask);
    if (results?.length !== batch.length) {
      throw new OsvUnreachable(`OSV answered ${results?.length} of ${batch.length} queries`);
    }
    for (const [at, { vulns = [] }] of results.entries()) {
      if (vulns.length > 0) {
        findings.push({ purl: batch[at] ?? "", ids: vulns.map(({ id }) => id) });
      }
    }
  }
  return findings;
}

async function post(purls: readonly string[], ask: typeof fetch): Promise<BatchAnswer> {
  const queries = purls.map((purl) => ({ package: { purl } }));
  try {
    const answer = await ask("https://api.osv.dev/v1/querybatch", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ queries }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (!answer.ok) throw new OsvUnreachable(`OSV answers with status ${answer.status}`);
    return (await answer.json()) as BatchAnswer;
  } catch (error) {
    if (error instanceof OsvUnreachable) throw error;
    throw new OsvUnreachable("OSV does not answer", { cause: error });
  }
}
