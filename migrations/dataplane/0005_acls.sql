-- Access control lists. The numbers are Kafka's (ResourceType, PatternType, AclOperation, AclPermissionType).
-- A rule is its own key: adding one that exists changes nothing.
CREATE TABLE acls (
    resource_type INTEGER NOT NULL CHECK (resource_type BETWEEN 2 AND 7),
    resource_name TEXT    NOT NULL,
    pattern_type  INTEGER NOT NULL CHECK (pattern_type IN (3, 4)),
    principal     TEXT    NOT NULL,
    host          TEXT    NOT NULL,
    operation     INTEGER NOT NULL CHECK (operation BETWEEN 2 AND 15),
    permission    INTEGER NOT NULL CHECK (permission IN (2, 3)),
    PRIMARY KEY (resource_type, resource_name, pattern_type, principal, host, operation, permission)
) STRICT, WITHOUT ROWID;
