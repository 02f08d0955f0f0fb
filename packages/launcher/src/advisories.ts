/**
 * `npm run advisories`: known vulnerabilities of every npm, Cargo and Go package of the product. Ends with 1
 * where there is one, and with 3 where the database cannot be asked.
 */
import { findVulnerable, OsvUnreachable } from "./osv.ts";
import { writeSboms } from "./sbom.ts";

const UNREACHABLE = 3;

try {
  const components = await writeSboms();
  const purls = components.flatMap(({ purl }) => (purl === undefined ? [] : [bare(purl)]));
  const findings = await findVulnerable([...new Set(purls)]);
  for (const { purl, ids } of findings) console.error(`${purl}: ${ids.join(", ")}`);
  console.log(`${purls.length} packages, ${findings.length} with known vulnerabilities`);
  process.exitCode = findings.length > 0 ? 1 : 0;
} catch (error) {
  if (!(error instanceof OsvUnreachable)) throw error;
  console.error(`not checked: ${error.message}`);
  process.exitCode = UNREACHABLE;
}

/** OSV knows packages without qualifiers and subpaths. */
function bare(purl: string): string {
  return purl.replace(/[?#].*$/, "");
}
