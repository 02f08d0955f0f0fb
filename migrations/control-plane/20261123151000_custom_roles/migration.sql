-- Named sets of permissions that an organization makes for its members.
CREATE TABLE "custom_role" (
    "id" TEXT NOT NULL,
    "organization_id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "description" TEXT NOT NULL,
    "permissions" TEXT[] NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "custom_role_pkey" PRIMARY KEY ("id")
);
CREATE UNIQUE INDEX "custom_role_organization_id_name_key" ON "custom_role"("organization_id", "name");
ALTER TABLE "custom_role" ADD CONSTRAINT "custom_role_organization_id_fkey"
  FOREIGN KEY ("organization_id") REFERENCES "organization"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- A member with a custom role has its permissions, whatever `role` says.
ALTER TABLE "member" ADD COLUMN "custom_role_id" TEXT;
CREATE INDEX "member_custom_role_id_idx" ON "member"("custom_role_id");
ALTER TABLE "member" ADD CONSTRAINT "member_custom_role_id_fkey"
  FOREIGN KEY ("custom_role_id") REFERENCES "custom_role"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

GRANT SELECT, INSERT, UPDATE, DELETE ON custom_role TO millrace_api;
ALTER TABLE "custom_role" ENABLE ROW LEVEL SECURITY;
ALTER TABLE "custom_role" FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON "custom_role" TO millrace_api, millrace_worker
  USING (organization_id = current_setting('app.organization_id', true))
  WITH CHECK (organization_id = current_setting('app.organization_id', true));
CREATE POLICY owner_path ON "custom_role" TO CURRENT_USER
  USING (current_setting('app.owner_path', true) = 'on');

-- Sign-in learns the custom role with the membership.
DROP FUNCTION memberships_of(text);
CREATE FUNCTION memberships_of(person text) RETURNS TABLE (
    organization_id text, role text, name text, slug text, created_at timestamptz,
    sso_required boolean, custom_role_id text, custom_role_name text, custom_role_permissions text[])
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
BEGIN
  PERFORM set_config('app.owner_path', 'on', true);
  RETURN QUERY SELECT o.id, m.role, o.name, o.slug, o.created_at, coalesce(s.required, false),
      c.id, c.name, c.permissions
    FROM public.member m JOIN public.organization o ON o.id = m.organization_id
    LEFT JOIN public.sso_connection s ON s.organization_id = o.id
    LEFT JOIN public.custom_role c ON c.id = m.custom_role_id
    WHERE m.user_id = person ORDER BY m.created_at, m.id;
  PERFORM set_config('app.owner_path', '', true);
END
$$;
REVOKE ALL ON FUNCTION memberships_of(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memberships_of(text) TO millrace_api;
