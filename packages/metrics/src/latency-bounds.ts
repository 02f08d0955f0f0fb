/**
 * Upper bounds of every latency histogram of the product, in microseconds, without +Inf. They are
 * fixed, because only equal buckets can be added over brokers and over time. Each bound is 1.3 to 2
 * times the one before, so a percentile read from them is wrong by less than that.
 */
export const LATENCY_BOUNDS_US: readonly number[] = [
  500, 1_000, 1_500, 2_000, 3_000, 4_000, 6_000, 8_000, 12_000, 16_000, 24_000, 32_000, 48_000,
  64_000, 96_000, 128_000, 192_000, 256_000, 384_000, 512_000, 768_000, 1_024_000, 2_048_000,
  4_096_000, 8_192_000, 16_384_000, 32_768_000,
];
