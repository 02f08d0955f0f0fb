-- Who did what, in one chain of hashes per organization. Rows are only ever added: API and worker have no
-- right to change them, and a trigger refuses everybody else.
CREATE TABLE "audit_event" (
    "organization_id" TEXT NOT NULL,
    "seq" BIGINT NOT NULL,
    "id" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "actor_kind" TEXT NOT NULL,
    "actor_id" TEXT NOT NULL,
    "actor_name" TEXT NOT NULL,
    "auth_method" TEXT NOT NULL,
    "client_address" TEXT NOT NULL,
    "request_id" TEXT NOT NULL,
    "method" TEXT NOT NULL,
    "target_id" TEXT,
    "result" TEXT NOT NULL,
    "error_code" TEXT,
    "request" JSONB,
    "before" JSONB,
    "after" JSONB,
    "previous_hash" BYTEA NOT NULL,
    "hash" BYTEA NOT NULL,

    CONSTRAINT "audit_event_pkey" PRIMARY KEY ("organization_id", "seq")
);
CREATE UNIQUE INDEX "audit_event_id_key" ON "audit_event"("id");
CREATE INDEX "audit_event_organization_id_created_at_id_idx"
  ON "audit_event"("organization_id", "created_at" DESC, "id" DESC);
ALTER TABLE "audit_event" ADD CONSTRAINT "audit_event_organization_id_fkey"
  FOREIGN KEY ("organization_id") REFERENCES "organization"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- What each verification of a chain found. The head of the last one tells whether rows were cut off since.
CREATE TABLE "audit_check" (
    "organization_id" TEXT NOT NULL,
    "checked_at" TIMESTAMPTZ(3) NOT NULL,
    "seq" BIGINT NOT NULL,
    "hash" BYTEA NOT NULL,
    "broken_seq" BIGINT,

    CONSTRAINT "audit_check_pkey" PRIMARY KEY ("organization_id", "checked_at")
);
ALTER TABLE "audit_check" ADD CONSTRAINT "audit_check_organization_id_fkey"
  FOREIGN KEY ("organization_id") REFERENCES "organization"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- SHA-256 over the hash before and every field, as PostgreSQL writes them in one JSON array.
CREATE FUNCTION audit_event_hash(previous bytea, e audit_event) RETURNS bytea
  LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
  SELECT sha256(previous || convert_to(jsonb_build_array(
    e.organization_id, e.seq, e.id, (extract(epoch FROM e.created_at) * 1000)::bigint,
    e.actor_kind, e.actor_id, e.actor_name, e.auth_method, e.client_address, e.request_id, e.method,
    e.target_id, e.result, e.error_code, e.request, e.before, e.after)::text, 'UTF8'))
$$;

-- Number, time and hashes are the database's: whoever may insert cannot choose them.
CREATE FUNCTION chain_audit_event() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, public AS $$
DECLARE
  last record;
BEGIN
  -- Until the transaction ends, the next event of this organization waits.
  PERFORM pg_advisory_xact_lock(hashtextextended('audit ' || NEW.organization_id, 0));
  SELECT seq, hash INTO last FROM public.audit_event
    WHERE organization_id = NEW.organization_id ORDER BY seq DESC LIMIT 1;
  NEW.seq := coalesce(last.seq, 0) + 1;
  NEW.previous_hash := coalesce(last.hash, ''::bytea);
  NEW.created_at := date_trunc('milliseconds', clock_timestamp());
  NEW.hash := public.audit_event_hash(NEW.previous_hash, NEW);
  RETURN NEW;
END
$$;
CREATE TRIGGER "audit_event_is_chained" BEFORE INSERT ON "audit_event"
  FOR EACH ROW EXECUTE FUNCTION chain_audit_event();
CREATE TRIGGER "audit_event_is_kept" BEFORE UPDATE OR DELETE OR TRUNCATE ON "audit_event"
  FOR EACH STATEMENT EXECUTE FUNCTION "refuse_change_of_history"();
CREATE TRIGGER "audit_check_is_kept" BEFORE UPDATE OR DELETE OR TRUNCATE ON "audit_check"
  FOR EACH STATEMENT EXECUTE FUNCTION "refuse_change_of_history"();

GRANT SELECT, INSERT ON audit_event TO millrace_api;
GRANT SELECT ON audit_event TO millrace_worker;
GRANT SELECT, INSERT ON audit_check TO millrace_worker;
GRANT SELECT (id) ON organization TO millrace_fleet;
GRANT SELECT (organization_id, checked_at) ON audit_check TO millrace_fleet;

DO $$
DECLARE
  each text;
BEGIN
  FOREACH each IN ARRAY ARRAY['audit_event', 'audit_check'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', each);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', each);
    EXECUTE format(
      'CREATE POLICY tenant ON %I TO millrace_api, millrace_worker
       USING (organization_id = current_setting(''app.organization_id'', true))
       WITH CHECK (organization_id = current_setting(''app.organization_id'', true))', each);
    EXECUTE format(
      'CREATE POLICY owner_path ON %I TO CURRENT_USER USING (current_setting(''app.owner_path'', true) = ''on'')',
      each);
  END LOOP;
END
$$;
CREATE POLICY fleet ON organization FOR SELECT TO millrace_fleet USING (true);
CREATE POLICY fleet ON audit_check FOR SELECT TO millrace_fleet USING (true);

-- Who asked for an operation; absent where the worker began it.
ALTER TABLE "operation" ADD COLUMN "created_by" JSONB;
