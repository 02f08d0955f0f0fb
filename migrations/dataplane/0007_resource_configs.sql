-- Configurations that are set for groups and for subscriptions to client metrics (KIP-714), one row each. A resource exists while it has
-- one. resource_type: Kafka's number, 16 client metrics, 32 group.
CREATE TABLE resource_configs (
    resource_type INTEGER NOT NULL CHECK (resource_type IN (16, 32)),
    resource_name TEXT    NOT NULL CHECK (resource_name <> ''),
    config_name   TEXT    NOT NULL,
    config_value  TEXT    NOT NULL,
    PRIMARY KEY (resource_type, resource_name, config_name)
) STRICT, WITHOUT ROWID;
