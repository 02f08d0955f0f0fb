import { DomainError } from "@millrace/domain";

/** The deepest request has 6 levels; tRPC's batches and their metadata add 4. */
const JSON_DEPTH_MAX = 32;

/**
 * Throws `validation_failed` for JSON that nests deeper than any request does, before anything recurses over
 * it. Reads brackets alone: what is no JSON is found by its parser.
 */
export function assertShallow(json: string): void {
  let depth = 0;
  let inString = false;
  for (let at = 0; at < json.length; at += 1) {
    const char = json[at];
    if (inString) {
      if (char === "\\") at += 1;
      else if (char === '"') inString = false;
    } else if (char === '"') inString = true;
    else if (char === "{" || char === "[") {
      depth += 1;
      if (depth > JSON_DEPTH_MAX) throw tooDeep();
    } else if (char === "}" || char === "]") depth -= 1;
  }
}

function tooDeep(): DomainError {
  return new DomainError(
    "validation_failed",
    `The request nests deeper than ${JSON_DEPTH_MAX} levels.`,
    { fields: [{ pointer: "", code: "too_deep", message: "nests too deep" }] },
  );
}
