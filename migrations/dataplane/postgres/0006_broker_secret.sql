-- The secret with which the brokers of the cluster authenticate to each other: 244 random bits. Anyone who can read this database can
-- sign in as a broker.
ALTER TABLE cluster
    ADD COLUMN broker_secret TEXT NOT NULL DEFAULT gen_random_uuid()::text || gen_random_uuid()::text;
