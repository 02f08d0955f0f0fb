-- The control link: brokers connect to gateways, which pass requests of the control plane to them.

-- What a broker of a slot signs in with. A credential is revoked by removing its row.
CREATE TABLE "broker_credential" (
  -- SHA-256 of its text.
  "secret_hash" BYTEA NOT NULL,
  "cluster_id" TEXT NOT NULL,
  "broker_id" INTEGER NOT NULL,
  "created_at" TIMESTAMPTZ(6) NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT "broker_credential_pkey" PRIMARY KEY ("secret_hash"),
  CONSTRAINT "broker_credential_cluster_id_fkey" FOREIGN KEY ("cluster_id")
    REFERENCES "cluster"("id") ON DELETE CASCADE ON UPDATE CASCADE
);
CREATE INDEX "broker_credential_cluster_id_broker_id_idx" ON "broker_credential"("cluster_id", "broker_id");

-- The newest link of each slot. Times are those of the database.
CREATE TABLE "broker_link" (
  "cluster_id" TEXT NOT NULL,
  "broker_id" INTEGER NOT NULL,
  -- New for each connection: a gateway writes only the row of a link that it still holds.
  "link_id" TEXT NOT NULL,
  "gateway_id" TEXT NOT NULL,
  "connected_at" TIMESTAMPTZ(3) NOT NULL,
  -- The last frame of the broker, exact to a few seconds.
  "last_heard_at" TIMESTAMPTZ(3) NOT NULL,
  "disconnected_at" TIMESTAMPTZ(3),
  "remote_address" TEXT NOT NULL,
  "broker_version" TEXT NOT NULL,
  -- Random, and new for each start of the broker.
  "broker_start" TEXT NOT NULL,
  CONSTRAINT "broker_link_pkey" PRIMARY KEY ("cluster_id", "broker_id"),
  CONSTRAINT "broker_link_cluster_id_fkey" FOREIGN KEY ("cluster_id")
    REFERENCES "cluster"("id") ON DELETE CASCADE ON UPDATE CASCADE
);
CREATE INDEX "broker_link_gateway_id_idx" ON "broker_link"("gateway_id");

-- Processes that hold links, and where they take each other's requests.
CREATE TABLE "gateway" (
  -- New for each start.
  "id" TEXT NOT NULL,
  "internal_url" TEXT NOT NULL,
  "last_seen_at" TIMESTAMPTZ(3) NOT NULL DEFAULT now(),
  CONSTRAINT "gateway_pkey" PRIMARY KEY ("id")
);
CREATE UNIQUE INDEX "gateway_internal_url_key" ON "gateway"("internal_url");

-- Roles belong to the server: another database on it may have made this one already.
DO $$
BEGIN
  CREATE ROLE millrace_gateway NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOINHERIT;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
  NULL;
END
$$;

GRANT USAGE ON SCHEMA public TO millrace_gateway;
GRANT SELECT ON broker_credential TO millrace_gateway;
GRANT SELECT, INSERT, UPDATE ON broker_link TO millrace_gateway;
GRANT SELECT, INSERT, UPDATE, DELETE ON gateway TO millrace_gateway;
-- The worker issues and revokes credentials. It learns no secret from the hashes.
GRANT SELECT, INSERT, DELETE ON broker_credential TO millrace_worker;
GRANT SELECT ON broker_link, gateway TO millrace_worker;
GRANT SELECT ON broker_link, gateway TO millrace_api;

DO $$
DECLARE
  name text;
  owned CONSTANT text := 'EXISTS (SELECT 1 FROM cluster WHERE cluster.id = cluster_id)';
BEGIN
  FOREACH name IN ARRAY ARRAY['broker_credential', 'broker_link'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
    EXECUTE format(
      'CREATE POLICY tenant ON %I TO millrace_api, millrace_worker USING (%s) WITH CHECK (%s)',
      name, owned, owned);
    -- A gateway serves brokers of every organization, and sees nothing else of them.
    EXECUTE format('CREATE POLICY gateway ON %I TO millrace_gateway USING (true) WITH CHECK (true)', name);
    EXECUTE format(
      'CREATE POLICY owner_path ON %I TO CURRENT_USER USING (current_setting(''app.owner_path'', true) = ''on'')',
      name);
  END LOOP;
END
$$;
