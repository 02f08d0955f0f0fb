-- Delegation tokens (KIP-48). A token's HMAC is not stored: it follows from the id and the configured secret key.

-- owner, requester: principals, Type:name. renewers: a JSON list of principals. Times: milliseconds since 1970-01-01 UTC.
CREATE TABLE delegation_tokens (
    token_id   TEXT    NOT NULL PRIMARY KEY,
    owner      TEXT    NOT NULL,
    requester  TEXT    NOT NULL,
    renewers   TEXT    NOT NULL CHECK (json_type(renewers) = 'array'),
    issued_ms  INTEGER NOT NULL,
    max_ms     INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL CHECK (expires_ms <= max_ms)
) STRICT, WITHOUT ROWID;
