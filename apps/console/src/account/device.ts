/** What people call the program behind a `User-Agent`. Pure, so that it is tested alone. */

/** The first that is found counts: each later name is also in the text of an earlier one. */
const BROWSERS: readonly (readonly [token: RegExp, name: string])[] = [
  [/Edg\//, "Edge"],
  [/OPR\//, "Opera"],
  [/Firefox\//, "Firefox"],
  [/Chrome\//, "Chrome"],
  [/Safari\//, "Safari"],
];
const SYSTEMS: readonly (readonly [token: RegExp, name: string])[] = [
  [/Android/, "Android"],
  [/iPhone|iPad/, "iOS"],
  [/Windows/, "Windows"],
  [/Mac OS X|Macintosh/, "macOS"],
  [/Linux/, "Linux"],
];

/** Such as "Firefox on Linux". */
export function deviceOf(userAgent: string): string {
  const named = (list: typeof BROWSERS) => list.find(([token]) => token.test(userAgent))?.[1];
  const [browser, system] = [named(BROWSERS), named(SYSTEMS)];
  if (browser === undefined) return system ?? "Unknown device";
  return system === undefined ? browser : `${browser} on ${system}`;
}
