-- What has happened to the brokers of the cluster, for people. The newest 1,000 are kept.
CREATE TABLE events (
    id      BIGINT      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      TIMESTAMPTZ NOT NULL DEFAULT now(),
    kind    TEXT        NOT NULL CHECK (kind IN ('joined', 'fenced', 'takeover', 'draining', 'left', 'moving')),
    -- The broker that it happened to; NULL: the cluster.
    node_id BIGINT,
    text    TEXT        NOT NULL
);
