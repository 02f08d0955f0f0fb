/** A number of bytes in the largest unit that it is a whole multiple of: `768 MiB`. */
export function byteText(count: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB"];
  let value = count;
  let unit = 0;
  while (value >= 1024 && value % 1024 === 0 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value} ${units[unit]}`;
}

/** A number of bytes, rounded to whole MiB: `768 MiB`. */
export function mebibytes(count: number): string {
  return `${Math.round(count / 1024 ** 2)} MiB`;
}
