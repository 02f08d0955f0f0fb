-- What exists and who owns it, shared by all brokers of a cluster. Metadata is written when topics change, when streams
-- are opened or trimmed and when an upload is committed: never between a record and its acknowledgement.

-- The cluster that this metadata belongs to; fixed by the first start of a broker.
CREATE TABLE cluster (
    singleton  BOOLEAN NOT NULL PRIMARY KEY CHECK (singleton),
    cluster_id TEXT    NOT NULL
);

-- Every id comes from here and is never given out twice, whatever crashes in between. PostgreSQL's own sequences
-- do not give successive numbers to one caller.
CREATE TABLE sequences (
    name TEXT   NOT NULL PRIMARY KEY,
    next BIGINT NOT NULL
);

INSERT INTO sequences (name, next)
VALUES ('node_epoch', 1), ('stream', 1), ('object', 1), ('producer', 0);

-- The current epoch of each node. Epochs are unique over all nodes, so one number says which start of which node is
-- speaking; an epoch that is not here is fenced.
CREATE TABLE nodes (
    node_id BIGINT NOT NULL PRIMARY KEY,
    epoch   BIGINT NOT NULL UNIQUE
);

-- Each upload moves the ends of its streams: half of a page stays free for the new versions of its rows.
CREATE TABLE streams (
    stream_id    BIGINT NOT NULL PRIMARY KEY,
    epoch        BIGINT NOT NULL,
    owner_epoch  BIGINT,
    start_offset BIGINT NOT NULL,
    end_offset   BIGINT NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE topics (
    topic_id BYTEA            NOT NULL PRIMARY KEY CHECK (octet_length(topic_id) = 16),
    name     TEXT COLLATE "C" NOT NULL UNIQUE,
    configs  TEXT             NOT NULL
);

CREATE TABLE partitions (
    topic_id        BYTEA  NOT NULL REFERENCES topics (topic_id),
    partition_index BIGINT NOT NULL,
    data_stream     BIGINT NOT NULL UNIQUE,
    meta_stream     BIGINT NOT NULL UNIQUE,
    PRIMARY KEY (topic_id, partition_index)
);

-- state: 1 prepared (its id is given out), 2 committed, 3 retired (to be deleted from the bucket).
-- kind: 1 stream set, 2 stream. An object's ranges are one row, however many streams are in it.
CREATE TABLE objects (
    object_id  BIGINT   NOT NULL PRIMARY KEY,
    state      SMALLINT NOT NULL CHECK (state IN (1, 2, 3)),
    node_epoch BIGINT   NOT NULL,
    kind       SMALLINT CHECK (kind IN (1, 2)),
    size       BIGINT,
    stream_ids BIGINT[],
    starts     BIGINT[],
    ends       BIGINT[],
    retired_at TIMESTAMPTZ,
    CHECK (state <> 2 OR (kind IS NOT NULL AND size IS NOT NULL AND cardinality(stream_ids) > 0)),
    CHECK (cardinality(stream_ids) = cardinality(starts) AND cardinality(stream_ids) = cardinality(ends)),
    CHECK (kind <> 2 OR cardinality(stream_ids) = 1),
    CHECK ((state = 3) = (retired_at IS NOT NULL))
);

CREATE INDEX objects_prepared ON objects (node_epoch) WHERE state = 1;
CREATE INDEX objects_retired ON objects (object_id) WHERE state = 3;
CREATE INDEX objects_stream_sets ON objects (object_id) WHERE state = 2 AND kind = 1;
-- Where an offset of a stream is. Compaction keeps the stream sets few; a stream has any number of objects of its own.
CREATE INDEX objects_by_stream ON objects ((stream_ids[1]), (ends[1])) WHERE state = 2 AND kind = 2;
CREATE INDEX objects_by_streams ON objects USING gin (stream_ids) WHERE state = 2 AND kind = 1;

-- Small values that parts of the broker keep by name.
CREATE TABLE kv (
    name  TEXT  NOT NULL PRIMARY KEY,
    value BYTEA NOT NULL
);

-- What is kept of the passwords of users who authenticate by SCRAM: neither the password nor what a client needs to
-- sign in can be computed from it (RFC 5802). mechanism: Kafka's number, 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.
CREATE TABLE scram_credentials (
    user_name  TEXT COLLATE "C" NOT NULL,
    mechanism  BIGINT           NOT NULL CHECK (mechanism IN (1, 2)),
    iterations BIGINT           NOT NULL,
    salt       BYTEA            NOT NULL,
    stored_key BYTEA            NOT NULL,
    server_key BYTEA            NOT NULL,
    PRIMARY KEY (user_name, mechanism)
);

-- Client quotas: a limit of an entity. A part of the entity that is NULL does not count; an empty one is the default for
-- all who have no quota by name. Names are never empty.
CREATE TABLE client_quotas (
    user_name   TEXT COLLATE "C",
    client_id   TEXT COLLATE "C",
    ip          TEXT COLLATE "C",
    quota_key   TEXT COLLATE "C" NOT NULL,
    quota_value DOUBLE PRECISION NOT NULL CHECK (quota_value > 0),
    UNIQUE NULLS NOT DISTINCT (user_name, client_id, ip, quota_key)
);

-- Access control lists. The numbers are Kafka's (ResourceType, PatternType, AclOperation, AclPermissionType). A rule is
-- its own key: adding one that exists changes nothing.
CREATE TABLE acls (
    resource_type BIGINT NOT NULL CHECK (resource_type BETWEEN 2 AND 7),
    resource_name TEXT   NOT NULL,
    pattern_type  BIGINT NOT NULL CHECK (pattern_type IN (3, 4)),
    principal     TEXT   NOT NULL,
    host          TEXT   NOT NULL,
    operation     BIGINT NOT NULL CHECK (operation BETWEEN 2 AND 15),
    permission    BIGINT NOT NULL CHECK (permission IN (2, 3)),
    PRIMARY KEY (resource_type, resource_name, pattern_type, principal, host, operation, permission)
);

-- Delegation tokens (KIP-48). A token's HMAC is not stored: it follows from the id and the configured secret key.
-- owner, requester: principals, Type:name. renewers: a JSON list of principals. Times: milliseconds since 1970-01-01 UTC.
CREATE TABLE delegation_tokens (
    token_id   TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    owner      TEXT             NOT NULL,
    requester  TEXT             NOT NULL,
    renewers   TEXT             NOT NULL CHECK (renewers IS JSON ARRAY),
    issued_ms  BIGINT           NOT NULL,
    max_ms     BIGINT           NOT NULL,
    expires_ms BIGINT           NOT NULL CHECK (expires_ms <= max_ms)
);
