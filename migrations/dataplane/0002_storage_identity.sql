-- Storage identity: which cluster, node and write-ahead log this metadata belongs to, and how old it is.
-- Startup compares it with the header of the log and with the bucket.

-- cluster_id and node_id are NULL before the first start, wal_id before the first log was formatted.
-- revision grows by one in every transaction, within that transaction. Streams below deleted_below that
-- are not in `streams` count as deleted: before this migration nobody kept their names.
CREATE TABLE identity (
    singleton      INTEGER NOT NULL PRIMARY KEY CHECK (singleton = 1),
    cluster_id     TEXT,
    node_id        INTEGER,
    wal_id         INTEGER,
    bucket_claimed INTEGER NOT NULL CHECK (bucket_claimed IN (0, 1)),
    revision       INTEGER NOT NULL,
    deleted_below  INTEGER NOT NULL
) STRICT;

INSERT INTO identity
    (singleton, cluster_id, node_id, wal_id, bucket_claimed, revision, deleted_below)
VALUES (
    1,
    (SELECT cluster_id FROM cluster),
    (SELECT node_id FROM nodes ORDER BY epoch DESC LIMIT 1),
    NULL,
    0,
    0,
    (SELECT next FROM sequences WHERE name = 'stream')
);

DROP TABLE cluster;

-- Streams that were deleted while the write-ahead log may still hold records of them.
CREATE TABLE deleted_streams (
    stream_id INTEGER NOT NULL PRIMARY KEY
) STRICT;
