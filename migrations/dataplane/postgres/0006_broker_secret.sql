-- What the brokers of the cluster sign in with at each other: 244 random bits. Whoever reads this database is one of them.
ALTER TABLE cluster
    ADD COLUMN broker_secret TEXT NOT NULL DEFAULT gen_random_uuid()::text || gen_random_uuid()::text;
