/** Whole numbers in as few bytes as they need: seven bits per byte, the lowest first; the sign is the lowest bit. */

const INITIAL_BYTES = 1_024;
/** Numbers whose absolute value is below this are exact in the arithmetic of `number`, their sign bit included. */
export const NARROW_MAX = 2 ** 51;

export class ByteWriter {
  #bytes = new Uint8Array(INITIAL_BYTES);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  byte(value: number): void {
    if (this.#length === this.#bytes.length) this.#grow(1);
    this.#bytes[this.#length] = value;
    this.#length += 1;
  }

  bytes(value: Uint8Array): void {
    this.#grow(value.length);
    this.#bytes.set(value, this.#length);
    this.#length += value.length;
  }

  /** A whole number below `NARROW_MAX`, of either sign. */
  integer(value: number): void {
    let rest = value < 0 ? -2 * value - 1 : 2 * value;
    while (rest >= 0x80) {
      this.byte((rest % 0x80) + 0x80);
      rest = Math.floor(rest / 0x80);
    }
    this.byte(rest);
  }

  bigInteger(value: bigint): void {
    let rest = value < 0n ? -2n * value - 1n : 2n * value;
    while (rest >= 0x80n) {
      this.byte(Number(rest & 0x7fn) + 0x80);
      rest >>= 7n;
    }
    this.byte(Number(rest));
  }

  finish(): Uint8Array {
    return this.#bytes.slice(0, this.#length);
  }

  #grow(needed: number): void {
    if (this.#length + needed <= this.#bytes.length) return;
    const bytes = new Uint8Array(2 * (this.#length + needed));
    bytes.set(this.#bytes);
    this.#bytes = bytes;
  }
}

/** Throws `RangeError` where the bytes end too early. */
export class ByteReader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  byte(): number {
    const value = this.#bytes[this.#at];
    if (value === undefined) throw new RangeError("the bytes end too early");
    this.#at += 1;
    return value;
  }

  bytes(length: number): Uint8Array {
    const end = this.#at + length;
    if (end > this.#bytes.length) throw new RangeError("the bytes end too early");
    const value = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return value;
  }

  integer(): number {
    return this.sums(1)[0] ?? 0;
  }

  /** Numbers that were written as the difference of each to the one before. */
  sums(count: number): number[] {
    const bytes = this.#bytes;
    const sums: number[] = [];
    let at = this.#at;
    let sum = 0;
    for (let index = 0; index < count; index += 1) {
      let byte = bytes[at++] ?? 0;
      let value = byte & 0x7f;
      for (let scale = 0x80; byte >= 0x80; scale *= 0x80) {
        byte = bytes[at++] ?? 0;
        value += (byte & 0x7f) * scale;
      }
      sum += value % 2 === 0 ? value / 2 : -(value + 1) / 2;
      sums.push(sum);
    }
    // Beyond the end there are zeros, which end the loops.
    if (at > bytes.length) throw new RangeError("the bytes end too early");
    this.#at = at;
    return sums;
  }

  bigInteger(): bigint {
    let value = 0n;
    let shift = 0n;
    let byte = this.byte();
    while (byte >= 0x80) {
      value |= BigInt(byte - 0x80) << shift;
      shift += 7n;
      byte = this.byte();
    }
    value |= BigInt(byte) << shift;
    return value % 2n === 0n ? value / 2n : -(value + 1n) / 2n;
  }
}
