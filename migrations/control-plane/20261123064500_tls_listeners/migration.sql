SELECT set_config('app.owner_path', 'on', true);

-- AlterTable
ALTER TABLE "cluster" ADD COLUMN "tls_port" INTEGER;

-- CreateIndex
CREATE UNIQUE INDEX "cluster_tls_port_taken" ON "cluster"("host", "tls_port");

-- Clusters that are there get the port beside theirs, as new ones do. Their broker listens there from its
-- next start.
UPDATE "cluster" SET "tls_port" = "kafka_port" + 1000
    WHERE "region" = 'local' AND "host" = '127.0.0.1' AND "kafka_port" IS NOT NULL;

DROP FUNCTION taken_placements();
CREATE FUNCTION taken_placements()
  RETURNS TABLE (host text, kafka_port integer, admin_port integer, tls_port integer)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
BEGIN
  PERFORM set_config('app.owner_path', 'on', true);
  RETURN QUERY SELECT c.host, c.kafka_port, c.admin_port, c.tls_port
    FROM public.cluster c WHERE c.kafka_port IS NOT NULL;
  PERFORM set_config('app.owner_path', '', true);
END
$$;
REVOKE ALL ON FUNCTION taken_placements() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION taken_placements() TO millrace_api, millrace_worker, millrace_fleet;
