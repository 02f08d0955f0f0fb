-- After a rotation of the installation's secret, the API seals the client secrets of identity providers again, tenant by
-- tenant. This tells it which tenants have one, and nothing else of them.
CREATE FUNCTION sso_organizations(after_id text, most integer)
  RETURNS TABLE (organization_id text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
BEGIN
  PERFORM set_config('app.owner_path', 'on', true);
  RETURN QUERY SELECT c.organization_id FROM public.sso_connection c
    WHERE c.organization_id > after_id ORDER BY c.organization_id LIMIT most;
  PERFORM set_config('app.owner_path', '', true);
END
$$;
REVOKE ALL ON FUNCTION sso_organizations(text, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION sso_organizations(text, integer) TO millrace_api;
