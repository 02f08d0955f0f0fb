-- What exists and who owns it. Metadata is written when topics change, when streams are opened or
-- trimmed and when an upload is committed: never between a record and its acknowledgement.

-- The cluster that this metadata belongs to; fixed by the first start.
CREATE TABLE cluster (
    singleton  INTEGER NOT NULL PRIMARY KEY CHECK (singleton = 1),
    cluster_id TEXT    NOT NULL
) STRICT;

-- Every id comes from here and is never given out twice, whatever crashes in between.
CREATE TABLE sequences (
    name TEXT    NOT NULL PRIMARY KEY,
    next INTEGER NOT NULL
) STRICT;

INSERT INTO sequences (name, next)
VALUES ('node_epoch', 1), ('stream', 1), ('object', 1), ('producer', 0);

-- The current epoch of each node. Epochs are unique over all nodes, so one number says which start
-- of which node is speaking; an epoch that is not here is fenced.
CREATE TABLE nodes (
    node_id INTEGER NOT NULL PRIMARY KEY,
    epoch   INTEGER NOT NULL UNIQUE
) STRICT;

-- A stream's row changes when the stream is opened or trimmed, not when an upload is committed: its
-- end is the end of its last range in `objects`, or `end_offset` where that is further.
CREATE TABLE streams (
    stream_id    INTEGER NOT NULL PRIMARY KEY,
    epoch        INTEGER NOT NULL,
    owner_epoch  INTEGER,
    start_offset INTEGER NOT NULL,
    end_offset   INTEGER NOT NULL
) STRICT;

CREATE TABLE topics (
    topic_id BLOB NOT NULL PRIMARY KEY CHECK (length(topic_id) = 16),
    name     TEXT NOT NULL UNIQUE,
    configs  TEXT NOT NULL
) STRICT;

CREATE TABLE partitions (
    topic_id        BLOB    NOT NULL REFERENCES topics (topic_id),
    partition_index INTEGER NOT NULL,
    data_stream     INTEGER NOT NULL UNIQUE,
    meta_stream     INTEGER NOT NULL UNIQUE,
    PRIMARY KEY (topic_id, partition_index)
) STRICT;

-- state: 1 prepared (its id is given out), 2 committed, 3 doomed (to be deleted from the bucket).
-- kind: 1 stream set, 2 stream. Both kinds keep all their ranges in one blob, so that a commit
-- writes one row per object however many streams are in it.
CREATE TABLE objects (
    object_id  INTEGER NOT NULL PRIMARY KEY,
    state      INTEGER NOT NULL CHECK (state IN (1, 2, 3)),
    node_epoch INTEGER NOT NULL,
    kind       INTEGER CHECK (kind IN (1, 2)),
    size       INTEGER,
    ranges     BLOB,
    doomed_ms  INTEGER,
    CHECK (state <> 2 OR (kind IS NOT NULL AND size IS NOT NULL AND ranges IS NOT NULL)),
    CHECK (state <> 3 OR doomed_ms IS NOT NULL)
) STRICT;

CREATE INDEX objects_prepared ON objects (node_epoch) WHERE state = 1;
CREATE INDEX objects_doomed ON objects (doomed_ms) WHERE state = 3;

-- Small values that parts of the broker keep by name.
CREATE TABLE kv (
    name  TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL
) STRICT;
