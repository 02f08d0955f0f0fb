-- Client quotas: a limit of an entity. A part of the entity that is NULL does not count; an empty one is the
-- default for all who have no quota by name. Names are never empty.

CREATE TABLE client_quotas (
    user_name   TEXT,
    client_id   TEXT,
    ip          TEXT,
    quota_key   TEXT NOT NULL,
    quota_value REAL NOT NULL CHECK (quota_value > 0)
) STRICT;

-- NULLs differ from each other in a primary key.
CREATE UNIQUE INDEX client_quotas_entity ON client_quotas (
    user_name IS NULL, COALESCE(user_name, ''),
    client_id IS NULL, COALESCE(client_id, ''),
    ip IS NULL, COALESCE(ip, ''),
    quota_key
);
