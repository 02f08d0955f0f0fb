-- What is kept of the passwords of users who authenticate by SCRAM: neither the password nor what a client
-- needs to sign in can be computed from it (RFC 5802).

-- mechanism: Kafka's number, 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.
CREATE TABLE scram_credentials (
    user_name  TEXT    NOT NULL,
    mechanism  INTEGER NOT NULL CHECK (mechanism IN (1, 2)),
    iterations INTEGER NOT NULL,
    salt       BLOB    NOT NULL,
    stored_key BLOB    NOT NULL,
    server_key BLOB    NOT NULL,
    PRIMARY KEY (user_name, mechanism)
) STRICT;
