-- Several brokers of one cluster: who is there, who leads what, and what has changed.

-- What a broker tells the others when it joins. A node that only registers has no lease: nobody takes its streams for
-- its own, and nobody fences it. state: 1 active, 2 fenced (its log is to be taken over), 3 left (its log is empty).
ALTER TABLE nodes
    ADD COLUMN state SMALLINT CHECK (state IN (1, 2, 3)),
    -- By this database's clock, which alone decides.
    ADD COLUMN lease_until TIMESTAMPTZ,
    -- Since when the lease was renewed without a gap.
    ADD COLUMN held_since TIMESTAMPTZ,
    ADD COLUMN rack TEXT COLLATE "C",
    ADD COLUMN version TEXT,
    ADD COLUMN endpoints TEXT CHECK (endpoints IS JSON ARRAY),
    -- Where the log is, for whoever takes it over.
    ADD COLUMN log TEXT,
    -- The start that takes over the log of a fenced node.
    ADD COLUMN adopter_epoch BIGINT,
    ADD CHECK ((state = 1) <= (lease_until IS NOT NULL AND held_since IS NOT NULL AND endpoints IS NOT NULL));

-- The node of the owner, where it has joined: no other node may open the stream then.
ALTER TABLE streams ADD COLUMN owner_node BIGINT;
CREATE INDEX streams_by_owner_node ON streams (owner_node) WHERE owner_node IS NOT NULL;

-- Which node leads the partition, and which is to lead it next. The epoch grows with each change of the leader.
ALTER TABLE partitions
    ADD COLUMN leader BIGINT,
    ADD COLUMN leader_epoch BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN moving_to BIGINT;
CREATE INDEX partitions_by_leader ON partitions (leader);
CREATE INDEX partitions_moving ON partitions (moving_to) WHERE moving_to IS NOT NULL;

-- The newest changes, without a gap in their revisions; each transaction that changes topics, leaders, brokers or security
-- has one. what: 1 topics, 2 brokers, 4 security, and sums of these. topics: which of them; NULL: any.
CREATE TABLE changes (
    revision BIGINT   NOT NULL PRIMARY KEY,
    what     SMALLINT NOT NULL CHECK (what BETWEEN 1 AND 7),
    topics   BYTEA[]
);

INSERT INTO sequences (name, next) VALUES ('revision', 1);
