const HOME = "/clusters";

/**
 * Where a fresh session goes on: `then`, if it leads to this console. It is read as a browser reads
 * it, which leaves out tabs and line ends and takes `\\` for `/`: `/<tab>/elsewhere` is another
 * site's address.
 */
export function returnPath(then: string | null, origin: string): string {
  if (then === null || !then.startsWith("/") || !URL.canParse(then, origin)) return HOME;
  const { origin: target, pathname, search, hash } = new URL(then, origin);
  // A path of two slashes would be an address again the next time it is read.
  if (target !== origin || pathname.startsWith("//")) return HOME;
  return `${pathname}${search}${hash}`;
}
