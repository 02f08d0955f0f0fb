/** JSON as people read it, with each number as it was written: parsing would round 64-bit ones. */

const INDENT = "  ";
/** One token: a string, a bracket, a separator, or anything else up to the next of those. */
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const OPENING = new Set(["{", "["]);
const CLOSING = new Set(["}", "]"]);

/** Deeper text is no document that somebody reads, and each level costs an indent per line. */
const DEPTH_MAX = 64;
/** Larger text is shown as it is: indenting it would hold up the page. */
const CHARS_MAX = 256 * 1024;
/** Of the text's own length: nesting can make much of little. */
const GROWTH_MAX = 4;
/** Short text may grow more than that. */
const SHORT_CHARS = 16 * 1024;

/** The text with line breaks and indents; undefined where it is not a JSON object or list, or out of bounds. */
export function indentedJson(text: string): string | undefined {
  if (text.length > CHARS_MAX || depthOf(text) > DEPTH_MAX) return undefined;
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
  const indented = parts.join("");
  const charsMax = Math.max(GROWTH_MAX * text.length, SHORT_CHARS);
  return indented.length > charsMax ? undefined : indented;
}

/** How deep objects and lists are nested, without reading them: the parser would recurse. */
function depthOf(text: string): number {
  let depth = 0;
  let deepest = 0;
  for (const [token] of text.matchAll(TOKEN)) {
    if (OPENING.has(token)) depth += 1;
    else if (CLOSING.has(token)) depth -= 1;
    deepest = Math.max(deepest, depth);
    if (deepest > DEPTH_MAX) break;
  }
  return deepest;
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
