-- What each node had to do for the partitions that it leads, as it measured it last. Balancing reads it; losing it costs nothing.
CREATE TABLE broker_loads (
  node_id BIGINT PRIMARY KEY REFERENCES nodes,
  reported_at TIMESTAMPTZ NOT NULL,
  -- Bytes per second; each request counts as some.
  total BIGINT NOT NULL,
  -- The busiest partitions as JSON: [[topic, partition, load], …]
  partitions TEXT NOT NULL
);
