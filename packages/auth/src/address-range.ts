import { BlockList, isIP } from "node:net";

/** An address, or a CIDR block such as `10.0.0.0/8`, as `node:net` takes it. */
interface Range {
  readonly address: string;
  readonly bits: number;
  readonly family: "ipv4" | "ipv6";
}

/** Whether the text is an address or a CIDR block. */
export function isAddressRange(text: string): boolean {
  return parse(text) !== undefined;
}

/** Whether one of the ranges has the address. */
export function isAddressIn(address: string, ranges: readonly string[]): boolean {
  return ranges.some((range) => isRangeIn(address, range));
}

/** Whether `outer` has every address of `inner`. */
export function isRangeIn(inner: string, outer: string): boolean {
  const [within, around] = [parse(inner), parse(outer)];
  if (!within || !around || within.family !== around.family) return false;
  if (within.bits < around.bits) return false;
  const list = new BlockList();
  list.addSubnet(around.address, around.bits, around.family);
  return list.check(within.address, within.family);
}

function parse(text: string): Range | undefined {
  const [address = "", prefix, ...rest] = text.split("/");
  const version = isIP(address);
  if (version === 0 || address.includes("%") || rest.length > 0) return undefined;
  const max = version === 6 ? 128 : 32;
  if (prefix !== undefined && !/^\d{1,3}$/.test(prefix)) return undefined;
  const bits = prefix === undefined ? max : Number(prefix);
  return bits <= max ? { address, bits, family: version === 6 ? "ipv6" : "ipv4" } : undefined;
}
