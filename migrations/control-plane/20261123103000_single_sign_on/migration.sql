-- Single sign-on by OpenID Connect: one provider per organization, and the mail domains that lead to it.
CREATE TABLE "sso_connection" (
  "id" TEXT NOT NULL,
  "organization_id" TEXT NOT NULL,
  "issuer" TEXT NOT NULL,
  "client_id" TEXT NOT NULL,
  -- Sealed with a key derived from the installation's secret, bound to organization and connection.
  "client_secret" BYTEA NOT NULL,
  "default_role" TEXT NOT NULL,
  "required" BOOLEAN NOT NULL DEFAULT false,
  "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT now(),
  "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT now(),
  CONSTRAINT "sso_connection_pkey" PRIMARY KEY ("id"),
  CONSTRAINT "sso_connection_organization_id_fkey" FOREIGN KEY ("organization_id")
    REFERENCES "organization"("id") ON DELETE CASCADE ON UPDATE CASCADE
);
CREATE UNIQUE INDEX "sso_connection_organization_id_key" ON "sso_connection"("organization_id");

CREATE TABLE "sso_domain" (
  "domain" TEXT NOT NULL,
  "organization_id" TEXT NOT NULL,
  CONSTRAINT "sso_domain_pkey" PRIMARY KEY ("domain"),
  CONSTRAINT "sso_domain_organization_id_fkey" FOREIGN KEY ("organization_id")
    REFERENCES "organization"("id") ON DELETE CASCADE ON UPDATE CASCADE
);
CREATE INDEX "sso_domain_organization_id_idx" ON "sso_domain"("organization_id");

-- The only organization that a session by single sign-on is good for. Nothing used the column until now.
ALTER TABLE "session" RENAME COLUMN "active_organization_id" TO "sso_organization_id";
CREATE INDEX "session_sso_organization_id_idx" ON "session"("sso_organization_id");

GRANT SELECT, INSERT, UPDATE, DELETE ON sso_connection TO millrace_api;
GRANT SELECT, INSERT, DELETE ON sso_domain TO millrace_api;

DO $$
DECLARE
  name text;
  owned CONSTANT text := 'organization_id = current_setting(''app.organization_id'', true)';
BEGIN
  FOREACH name IN ARRAY ARRAY['sso_connection', 'sso_domain'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
    EXECUTE format(
      'CREATE POLICY tenant ON %I TO millrace_api, millrace_worker USING (%s) WITH CHECK (%s)',
      name, owned, owned);
    EXECUTE format(
      'CREATE POLICY owner_path ON %I TO CURRENT_USER USING (current_setting(''app.owner_path'', true) = ''on'')',
      name);
  END LOOP;
END
$$;

-- Whoever signs in belongs to no organization yet: they name one, or have a mail address.
CREATE FUNCTION find_sso(wanted_slug text, wanted_domain text)
  RETURNS TABLE (organization_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
BEGIN
  PERFORM set_config('app.owner_path', 'on', true);
  RETURN QUERY SELECT o.id
    FROM public.organization o JOIN public.sso_connection c ON c.organization_id = o.id
    WHERE o.slug = wanted_slug
      OR o.id = (SELECT d.organization_id FROM public.sso_domain d WHERE d.domain = wanted_domain);
  PERFORM set_config('app.owner_path', '', true);
END
$$;
REVOKE ALL ON FUNCTION find_sso(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_sso(text, text) TO millrace_api;

-- Whether an organization accepts passwords is read with the membership, on every request.
DROP FUNCTION memberships_of(text);
CREATE FUNCTION memberships_of(person text)
  RETURNS TABLE (organization_id text, role text, name text, slug text, created_at timestamptz, sso_required boolean)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
BEGIN
  PERFORM set_config('app.owner_path', 'on', true);
  RETURN QUERY SELECT o.id, m.role, o.name, o.slug, o.created_at, coalesce(c.required, false)
    FROM public.member m JOIN public.organization o ON o.id = m.organization_id
      LEFT JOIN public.sso_connection c ON c.organization_id = o.id
    WHERE m.user_id = person ORDER BY m.created_at, m.id;
  PERFORM set_config('app.owner_path', '', true);
END
$$;
REVOKE ALL ON FUNCTION memberships_of(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memberships_of(text) TO millrace_api;
