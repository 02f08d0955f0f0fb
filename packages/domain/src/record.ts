/** Records of a topic as they travel between a broker and a caller. */

/** Records of one request, in either direction: a page of this many stays readable and quick. */
export const RECORDS_MAX = 1_000;
export const RECORDS_DEFAULT = 50;
/** Body of one produce request, and keys, values and headers of one answer. */
export const RECORD_BYTES_MAX = 8 * 1024 * 1024;
/** How long a broker may look for records that match before it answers with what it has. */
export const RECORD_SCAN_MS_MAX = 10_000;
/** A stream of records ends after this; its reader continues it with its cursor. */
export const RECORD_STREAM_MS_MAX = 10 * 60_000;
/** Partitions that one request reads: each takes a place in its cursor, which travels in a URL. */
export const RECORD_PARTITIONS_MAX = 256;
/** Headers of one record: tracing and routing need a handful. */
export const RECORD_HEADERS_MAX = 100;
export const RECORD_HEADER_NAME_MAX = 1_024;
/** A key, header or text to filter by; longer ones are not typed. */
export const RECORD_FILTER_MAX = 4_096;

/** How bytes are written in JSON. */
export const BYTE_ENCODINGS = ["text", "base64", "hex"] as const;
/** What a reader asks for; `auto` is text where the bytes are UTF-8, else base64. */
export const READ_ENCODINGS = ["auto", "base64", "hex"] as const;
export const RECORD_STARTS = ["earliest", "latest"] as const;
export const PARTITIONERS = ["uniform_sticky", "sticky", "round_robin"] as const;
export const COMPRESSIONS = ["none", "gzip", "snappy", "lz4", "zstd"] as const;
