-- Row-level security: API and worker connect with roles that own nothing, and see the rows of one
-- organization per transaction, the one that `app.organization_id` names. Without it they see none.
--
-- What has to cross organizations has three paths:
-- 1. `millrace_fleet`, a role that the worker takes within a transaction, with policies of its own;
-- 2. functions that answer one narrow question each, with the owner's rights;
-- 3. `app.owner_path`, with which the owner of the tables sees rows at all: those functions set it, and so
--    does a migration that changes rows. It has no effect for any other role.

-- Roles belong to the server: another database on it may have made them already. They get a password, and
-- with it the right to connect, from `tools/migrate.ts`.
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['millrace_api', 'millrace_worker', 'millrace_fleet'] LOOP
    BEGIN
      EXECUTE format(
        'CREATE ROLE %I NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOINHERIT', name);
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
      NULL;
    END;
  END LOOP;
  BEGIN
    IF NOT pg_has_role('millrace_worker', 'millrace_fleet', 'MEMBER') THEN
      GRANT millrace_fleet TO millrace_worker;
    END IF;
  EXCEPTION WHEN unique_violation THEN
    NULL;
  END;
END
$$;

GRANT USAGE ON SCHEMA public TO millrace_api, millrace_worker, millrace_fleet;

-- People and their sessions belong to no organization, and the worker has no business with them.
GRANT SELECT, INSERT, UPDATE, DELETE ON "user", session, account, verification, rate_limit TO millrace_api;

GRANT SELECT, INSERT, UPDATE ON organization, member, api_key, environment, cluster, operation, operation_step
  TO millrace_api;
GRANT SELECT, INSERT ON operation_event, tuning_change TO millrace_api;
GRANT SELECT, INSERT, DELETE ON benchmark TO millrace_api;
GRANT SELECT ON operation_plan, benchmark_sample, metric_scrape, topic_scrape, consumer_lag_sample
  TO millrace_api;
GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency_key TO millrace_api;

GRANT SELECT ON organization, tuning_change TO millrace_worker;
GRANT SELECT, UPDATE ON cluster TO millrace_worker;
GRANT SELECT, INSERT, UPDATE ON operation, operation_step, operation_plan TO millrace_worker;
GRANT SELECT, INSERT ON operation_event, metric_scrape, topic_scrape, consumer_lag_sample TO millrace_worker;
GRANT SELECT, UPDATE, DELETE ON benchmark TO millrace_worker;
GRANT SELECT, INSERT, DELETE ON benchmark_sample TO millrace_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON terraform_state TO millrace_worker;

-- What the worker looks for in every organization, and removes when it is old.
GRANT SELECT ON cluster, operation, operation_step, benchmark TO millrace_fleet;
GRANT SELECT (cluster_id, version) ON terraform_state TO millrace_fleet;
GRANT SELECT, DELETE ON metric_scrape, topic_scrape, consumer_lag_sample TO millrace_fleet;
GRANT SELECT (expires_at), DELETE ON idempotency_key TO millrace_fleet;
GRANT DELETE ON operation TO millrace_fleet;

-- A row belongs to the organization that it names, or to that of the row that it refers to. The caller's own
-- policies apply within EXISTS, so that what is referred to has to be visible.
DO $$
DECLARE
  tenant CONSTANT text := 'current_setting(''app.organization_id'', true)';
  each record;
BEGIN
  FOR each IN
    SELECT * FROM (VALUES
      ('organization', format('id = %s', tenant)),
      ('member', format('organization_id = %s', tenant)),
      ('invitation', format('organization_id = %s', tenant)),
      ('api_key', format('organization_id = %s', tenant)),
      ('environment', format('organization_id = %s', tenant)),
      ('cluster', format('organization_id = %s', tenant)),
      ('operation', format('organization_id = %s', tenant)),
      ('idempotency_key', format('organization_id = %s', tenant)),
      ('tuning_change', 'EXISTS (SELECT 1 FROM cluster WHERE cluster.id = cluster_id)'),
      ('terraform_state', 'EXISTS (SELECT 1 FROM cluster WHERE cluster.id = cluster_id)'),
      ('metric_scrape', 'EXISTS (SELECT 1 FROM cluster WHERE cluster.id = cluster_id)'),
      ('topic_scrape', 'EXISTS (SELECT 1 FROM cluster WHERE cluster.id = cluster_id)'),
      ('consumer_lag_sample', 'EXISTS (SELECT 1 FROM cluster WHERE cluster.id = cluster_id)'),
      ('benchmark', 'EXISTS (SELECT 1 FROM cluster WHERE cluster.id = cluster_id)'),
      ('benchmark_sample', 'EXISTS (SELECT 1 FROM benchmark WHERE benchmark.id = benchmark_id)'),
      ('operation_step', 'EXISTS (SELECT 1 FROM operation WHERE operation.id = operation_id)'),
      ('operation_event', 'EXISTS (SELECT 1 FROM operation WHERE operation.id = operation_id)'),
      ('operation_plan', 'EXISTS (SELECT 1 FROM operation WHERE operation.id = operation_id)')
    ) AS rule (name, owned)
  LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', each.name);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', each.name);
    EXECUTE format(
      'CREATE POLICY tenant ON %I TO millrace_api, millrace_worker USING (%s) WITH CHECK (%s)',
      each.name, each.owned, each.owned);
    EXECUTE format(
      'CREATE POLICY owner_path ON %I TO CURRENT_USER USING (current_setting(''app.owner_path'', true) = ''on'')',
      each.name);
  END LOOP;
END
$$;

CREATE POLICY fleet ON cluster FOR SELECT TO millrace_fleet USING (true);
CREATE POLICY fleet ON operation FOR SELECT TO millrace_fleet USING (true);
CREATE POLICY fleet ON operation_step FOR SELECT TO millrace_fleet USING (true);
CREATE POLICY fleet ON benchmark FOR SELECT TO millrace_fleet USING (true);
CREATE POLICY fleet ON terraform_state FOR SELECT TO millrace_fleet USING (true);
CREATE POLICY fleet ON metric_scrape TO millrace_fleet USING (true);
CREATE POLICY fleet ON topic_scrape TO millrace_fleet USING (true);
CREATE POLICY fleet ON consumer_lag_sample TO millrace_fleet USING (true);
CREATE POLICY fleet ON idempotency_key TO millrace_fleet USING (expires_at < now());
-- DELETE needs to see the row as well, which the policy for SELECT allows.
CREATE POLICY fleet_removes ON operation FOR DELETE TO millrace_fleet
  USING (kind = 'cluster.check_drift' AND done);

-- Functions set `app.owner_path` themselves: only a superuser may attach a setting of ours to a function.

-- Sign-in: the organization is not known yet.
CREATE FUNCTION find_api_key(hash bytea) RETURNS SETOF api_key
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
BEGIN
  PERFORM set_config('app.owner_path', 'on', true);
  RETURN QUERY SELECT k.* FROM public.api_key k WHERE k.secret_hash = hash;
  PERFORM set_config('app.owner_path', '', true);
END
$$;
CREATE FUNCTION memberships_of(person text) RETURNS TABLE (organization_id text, role text, name text, slug text, created_at timestamptz)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
BEGIN
  PERFORM set_config('app.owner_path', 'on', true);
  RETURN QUERY SELECT o.id, m.role, o.name, o.slug, o.created_at
    FROM public.member m JOIN public.organization o ON o.id = m.organization_id
    WHERE m.user_id = person ORDER BY m.created_at, m.id;
  PERFORM set_config('app.owner_path', '', true);
END
$$;
-- The first start: whether the first organization exists already.
CREATE FUNCTION find_organization(wanted text) RETURNS SETOF organization
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
BEGIN
  PERFORM set_config('app.owner_path', 'on', true);
  RETURN QUERY SELECT o.* FROM public.organization o WHERE o.slug = wanted;
  PERFORM set_config('app.owner_path', '', true);
END
$$;
-- Ports of one machine, and room for load, are shared by its organizations: numbers, and no names.
CREATE FUNCTION taken_placements() RETURNS TABLE (host text, kafka_port integer, admin_port integer)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
BEGIN
  PERFORM set_config('app.owner_path', 'on', true);
  RETURN QUERY SELECT c.host, c.kafka_port, c.admin_port
    FROM public.cluster c WHERE c.kafka_port IS NOT NULL;
  PERFORM set_config('app.owner_path', '', true);
END
$$;
CREATE FUNCTION operations_under_way(wanted text) RETURNS TABLE (count bigint)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
BEGIN
  PERFORM set_config('app.owner_path', 'on', true);
  RETURN QUERY SELECT count(*) FROM public.operation o WHERE o.kind = wanted AND NOT o.done;
  PERFORM set_config('app.owner_path', '', true);
END
$$;

REVOKE ALL ON FUNCTION find_api_key(bytea), memberships_of(text), find_organization(text),
  taken_placements(), operations_under_way(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_api_key(bytea), memberships_of(text), find_organization(text) TO millrace_api;
GRANT EXECUTE ON FUNCTION taken_placements(), operations_under_way(text)
  TO millrace_api, millrace_worker, millrace_fleet;
