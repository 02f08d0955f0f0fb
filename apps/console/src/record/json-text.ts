/** JSON as people read it, with each number as it was written: parsing would round 64-bit ones. */

const INDENT = "  ";
/** One token: a string, a bracket, a separator, or anything else up to the next of those. */
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const OPENING = new Set(["{", "["]);
const CLOSING = new Set(["}", "]"]);

/** The text with line breaks and indents; undefined where it is not a JSON object or list. */
export function indentedJson(text: string): string | undefined {
  if (!/^\s*[{[]/.test(text) || !isJson(text)) return undefined;
  const tokens = text.match(TOKEN) ?? [];
  const parts: string[] = [];
  let depth = 0;
  tokens.forEach((token, index) => {
    const before = tokens[index - 1] ?? "";
    if (CLOSING.has(token)) {
      depth -= 1;
      parts.push(OPENING.has(before) ? token : `${lineBreak(depth)}${token}`);
    } else if (token === "," || token === ":") {
      parts.push(token === "," ? "," : ": ");
    } else {
      const starts = before === "," || OPENING.has(before);
      parts.push(starts ? `${lineBreak(depth)}${token}` : token);
      if (OPENING.has(token)) depth += 1;
    }
  });
  return parts.join("");
}

function lineBreak(depth: number): string {
  return `\n${INDENT.repeat(depth)}`;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
