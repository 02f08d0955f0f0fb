-- Whether a cluster's broker has a listener without TLS. Those that exist have one.
ALTER TABLE "cluster" ADD COLUMN "plaintext_listener" BOOLEAN NOT NULL DEFAULT true;
