/** Every bound of a gateway, so that no broker and no caller takes what the others need. */

/** Links of one gateway. A link that idles takes about 100 KiB. */
export const LINKS_MAX = 2_000;
/** Connections that are no links yet. Nobody has signed in on them, so more are closed at once, however few links there are. */
export const HANDSHAKE_CONNECTIONS_MAX = 512;
/** Requests for a link that wait for the database. More would wait longer than a broker does: they get 503. */
export const SIGN_INS_MAX = 256;
/** A broker gives up after this time, too. */
export const HANDSHAKE_MS_MAX = 10_000;
/** Of a request for a link: one credential and a few ids. */
export const LINK_REQUEST_BYTES_MAX = 8 * 1024;
/** Characters of what a broker says about itself, which is stored. */
export const BROKER_TEXT_MAX = 64;

/** Links that one slot may make: a flapping broker gets 20 at once, then one per second. */
export const SLOT_LINKS = { capacity: 20, perSecond: 1 };

/** Calls under way on one link: a broker takes 64 streams, and the difference is for what it still ends. */
export const STREAMS_PER_LINK_MAX = 60;
/** Calls that wait for one of them. Whoever finds that many in front of it would wait too long. */
export const WAITING_PER_LINK_MAX = 64;
export const STREAM_WAIT_MS_MAX = 2_000;
/** Calls of one gateway, since each may buffer up to four times `STREAM_WINDOW_BYTES`: 512 MiB. */
export const CALLS_MAX = 2_000;
/** What a broker may send of one answer before its caller takes it. */
export const STREAM_WINDOW_BYTES = 64 * 1024;
/** So large that answers which nobody takes never stop the others of the link. */
export const LINK_WINDOW_BYTES = (STREAMS_PER_LINK_MAX + 4) * STREAM_WINDOW_BYTES;
/** What Node may keep for one link in its own structures, in MB. */
export const LINK_MEMORY_MB_MAX = 10;
/** Headers of an answer. */
export const ANSWER_HEADER_BYTES_MAX = 16 * 1024;
/** Headers of a call. */
export const CALL_HEADER_BYTES_MAX = 16 * 1024;

/** A broker that has died or is cut off is noticed after the sum of both. */
export const PING_INTERVAL_MS = 5_000;
export const PING_ANSWER_MS_MAX = 5_000;

/** From a call to the head of its answer. Callers wait for less. */
export const ANSWER_HEAD_MS_MAX = 60_000;
/** Time in which a body does not move: its broker hangs, or its caller does not read. */
export const BODY_STALL_MS_MAX = 120_000;

/** How often a gateway compares its links with the database: revoked credentials end this soon. */
export const ROUND_INTERVAL_MS = 1_000;
/** How often it stores when brokers were last heard from: a row per link. */
export const HEARD_INTERVAL_MS = 5_000;
/** A database that does not answer in this time counts as away. */
export const DATABASE_MS_MAX = 5_000;

/** Calls under way end within this time after a stop; the rest is cut off. */
export const DRAIN_MS_MAX = 5_000;

/** Another gateway is in the same network: it takes a connection in a moment, or it has ended. */
export const FORWARD_CONNECT_MS_MAX = 2_000;
/** Locally another program writes the certificate when it starts. */
export const TLS_FILE_WAIT_MS_MAX = 60_000;
/** How often the certificate is read again: it is replaced days before it expires. */
export const TLS_FILE_INTERVAL_MS = 5_000;
