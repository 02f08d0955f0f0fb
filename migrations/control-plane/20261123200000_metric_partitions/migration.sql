-- Readings by resolution, in partitions that the retention drops, and one worker per cluster that reads them.
--
-- Counters and histogram buckets are cumulative: any subset of the readings gives the exact growth between two of
-- them. So each reading is stored once, at the coarsest resolution of which it begins a stretch, and a query at a
-- resolution takes the readings of that and of all coarser ones. Nothing has to be aggregated later.
SELECT set_config('app.owner_path', 'on', true);

-- Per resolution in seconds: how much time a partition covers, and how long it is kept. 2 s is what people see who
-- look at a cluster now.
CREATE FUNCTION metric_retention()
  RETURNS TABLE (resolution integer, width_seconds bigint, keep_seconds bigint)
  LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, public AS $$
  VALUES
    (2, 3600::bigint, 2 * 3600::bigint),
    (10, 86400, 2 * 86400),
    (60, 86400, 15 * 86400),
    (600, 30 * 86400, 400 * 86400)
$$;

-- The partitions for readings between two times. They are made apart and attached, because that blocks no insert. Nobody has rights
-- to a partition itself: rows are only reachable through the parent, whose policies hold for them.
CREATE FUNCTION prepare_metric_partitions(begins timestamptz, ends timestamptz) RETURNS integer
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  -- About 600 partitions: a wrong range must not fill the catalogue.
  range_max CONSTANT interval := interval '7 days';
  made integer := 0;
  parent text;
  kind record;
  lower_seconds bigint;
  name text;
BEGIN
  IF ends - begins > range_max THEN
    RAISE EXCEPTION 'partitions for more than % at once: from % to %', range_max, begins, ends;
  END IF;
  PERFORM pg_advisory_xact_lock(hashtext('metric partitions'));
  FOREACH parent IN ARRAY ARRAY['metric_scrape', 'topic_scrape', 'consumer_lag_sample'] LOOP
    FOR kind IN SELECT * FROM public.metric_retention() LOOP
      FOR lower_seconds IN
        SELECT generate_series(
          floor(extract(epoch FROM begins) / kind.width_seconds)::bigint * kind.width_seconds,
          floor(extract(epoch FROM ends))::bigint,
          kind.width_seconds)
      LOOP
        name := format('%s_%s_%s', parent, kind.resolution, lower_seconds);
        CONTINUE WHEN to_regclass(format('public.%I', name)) IS NOT NULL;
        made := made + 1;
        EXECUTE format('CREATE TABLE public.%I (LIKE public.%I INCLUDING ALL)', name, parent);
        EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
        EXECUTE format(
          'ALTER TABLE public.%I ATTACH PARTITION public.%I FOR VALUES FROM (%s, %L) TO (%s, %L)',
          parent, name, kind.resolution, to_timestamp(lower_seconds),
          kind.resolution, to_timestamp(lower_seconds + kind.width_seconds));
      END LOOP;
    END LOOP;
  END LOOP;
  RETURN made;
END
$$;

-- Drops the partitions whose readings are all older than their resolution is kept; a time in the future counts as now. A partition
-- that is in use is left for the next time.
CREATE FUNCTION drop_metric_partitions(at timestamptz) RETURNS integer
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  dropped integer := 0;
  old record;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('metric partitions'));
  PERFORM set_config('lock_timeout', '1s', true);
  FOR old IN
    SELECT part.relname FROM (
      SELECT c.relname, regexp_match(c.relname, '_(\d+)_(\d+)$') AS parts
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid AND c.relkind = 'r'
      WHERE i.inhparent IN (
        'public.metric_scrape'::regclass, 'public.topic_scrape'::regclass, 'public.consumer_lag_sample'::regclass)
    ) AS part
    JOIN public.metric_retention() AS kind ON kind.resolution = part.parts[1]::integer
    WHERE part.parts[2]::bigint + kind.width_seconds + kind.keep_seconds <= extract(epoch FROM least(at, now()))
  LOOP
    BEGIN
      EXECUTE format('DROP TABLE public.%I', old.relname);
      dropped := dropped + 1;
    EXCEPTION WHEN lock_not_available THEN
      NULL;
    END;
  END LOOP;
  RETURN dropped;
END
$$;

REVOKE ALL ON FUNCTION metric_retention(), prepare_metric_partitions(timestamptz, timestamptz),
  drop_metric_partitions(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION prepare_metric_partitions(timestamptz, timestamptz), drop_metric_partitions(timestamptz)
  TO millrace_fleet;

ALTER TABLE metric_scrape RENAME TO old_metric_scrape;
ALTER TABLE topic_scrape RENAME TO old_topic_scrape;
ALTER TABLE consumer_lag_sample RENAME TO old_consumer_lag_sample;
ALTER TABLE old_metric_scrape RENAME CONSTRAINT metric_scrape_pkey TO old_metric_scrape_pkey;
ALTER TABLE old_topic_scrape RENAME CONSTRAINT topic_scrape_pkey TO old_topic_scrape_pkey;
ALTER TABLE old_consumer_lag_sample RENAME CONSTRAINT consumer_lag_sample_pkey TO old_consumer_lag_sample_pkey;

-- No foreign key to the cluster: dropping a partition that has one locks the table cluster against everybody. The policies let
-- a worker write for clusters that exist only.
CREATE TABLE metric_scrape (
    cluster_id TEXT NOT NULL,
    broker_id INTEGER NOT NULL,
    resolution INTEGER NOT NULL,
    at TIMESTAMPTZ(3) NOT NULL,
    after_gap BOOLEAN NOT NULL,
    bytes_in BIGINT NOT NULL,
    bytes_out BIGINT NOT NULL,
    records_in BIGINT NOT NULL,
    produce_buckets BIGINT[],
    fetch_buckets BIGINT[],
    bucket_bounds_us INTEGER[],
    connections INTEGER NOT NULL,
    cache_hits BIGINT NOT NULL,
    cache_misses BIGINT NOT NULL,
    cache_fetched_bytes BIGINT NOT NULL,
    cache_delivered_bytes BIGINT NOT NULL,
    network_wait_us BIGINT NOT NULL,

    CONSTRAINT metric_scrape_pkey PRIMARY KEY (cluster_id, at, broker_id, resolution)
) PARTITION BY RANGE (resolution, at);

CREATE TABLE topic_scrape (
    cluster_id TEXT NOT NULL,
    broker_id INTEGER NOT NULL,
    topic TEXT NOT NULL,
    resolution INTEGER NOT NULL,
    at TIMESTAMPTZ(3) NOT NULL,
    after_gap BOOLEAN NOT NULL,
    bytes_in BIGINT NOT NULL,
    bytes_out BIGINT NOT NULL,
    records_in BIGINT NOT NULL,

    CONSTRAINT topic_scrape_pkey PRIMARY KEY (cluster_id, topic, at, broker_id, resolution)
) PARTITION BY RANGE (resolution, at);

CREATE TABLE consumer_lag_sample (
    cluster_id TEXT NOT NULL,
    group_id TEXT NOT NULL,
    resolution INTEGER NOT NULL,
    at TIMESTAMPTZ(3) NOT NULL,
    lag BIGINT NOT NULL,

    CONSTRAINT consumer_lag_sample_pkey PRIMARY KEY (cluster_id, at, group_id, resolution)
) PARTITION BY RANGE (resolution, at);

-- Which worker reads a cluster, until when, and until when somebody looks at it.
CREATE TABLE scrape_lease (
    cluster_id TEXT NOT NULL,
    worker_id TEXT NOT NULL,
    lease_until TIMESTAMPTZ(3) NOT NULL,
    watched_until TIMESTAMPTZ(3),

    CONSTRAINT scrape_lease_pkey PRIMARY KEY (cluster_id),
    CONSTRAINT scrape_lease_cluster_id_fkey FOREIGN KEY (cluster_id) REFERENCES cluster(id)
      ON DELETE CASCADE ON UPDATE CASCADE
);

GRANT SELECT ON metric_scrape, topic_scrape, consumer_lag_sample TO millrace_api;
GRANT SELECT, INSERT ON metric_scrape, topic_scrape, consumer_lag_sample TO millrace_worker;
GRANT SELECT ON scrape_lease TO millrace_api;
GRANT UPDATE (watched_until) ON scrape_lease TO millrace_api;
GRANT SELECT, INSERT, UPDATE ON scrape_lease TO millrace_fleet;

DO $$
DECLARE
  owned CONSTANT text := 'EXISTS (SELECT 1 FROM cluster WHERE cluster.id = cluster_id)';
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['metric_scrape', 'topic_scrape', 'consumer_lag_sample', 'scrape_lease'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
    EXECUTE format(
      'CREATE POLICY tenant ON %I TO millrace_api, millrace_worker USING (%s) WITH CHECK (%s)', name, owned, owned);
    EXECUTE format(
      'CREATE POLICY owner_path ON %I TO CURRENT_USER USING (current_setting(''app.owner_path'', true) = ''on'')',
      name);
  END LOOP;
END
$$;
CREATE POLICY fleet ON scrape_lease TO millrace_fleet USING (true) WITH CHECK (true);

SELECT prepare_metric_partitions(now() - interval '2 days', now() + interval '1 day');

-- What is there already, at 10 s and coarser: a reading is the first of its stretch if the one before lies in another.
INSERT INTO metric_scrape
SELECT cluster_id, broker_id,
  CASE WHEN before IS NULL OR at - before > interval '35 s' OR floor(epoch / 600) > floor(before_epoch / 600) THEN 600
    WHEN floor(epoch / 60) > floor(before_epoch / 60) THEN 60 ELSE 10 END,
  at, before IS NULL OR at - before > interval '35 s', bytes_in, bytes_out, records_in, produce_buckets, fetch_buckets,
  bucket_bounds_us, connections, cache_hits, cache_misses, cache_fetched_bytes, cache_delivered_bytes, network_wait_us
FROM (
  SELECT *, lag(at) OVER broker AS before, extract(epoch FROM at) AS epoch,
    extract(epoch FROM lag(at) OVER broker) AS before_epoch
  FROM old_metric_scrape WHERE at >= now() - interval '2 days' AND at <= now()
  WINDOW broker AS (PARTITION BY cluster_id, broker_id ORDER BY at)
) AS reading
WHERE before IS NULL OR floor(epoch / 10) > floor(before_epoch / 10);

INSERT INTO topic_scrape
SELECT cluster_id, broker_id, topic,
  CASE WHEN before IS NULL OR at - before > interval '35 s' OR floor(epoch / 600) > floor(before_epoch / 600) THEN 600
    WHEN floor(epoch / 60) > floor(before_epoch / 60) THEN 60 ELSE 10 END,
  at, before IS NULL OR at - before > interval '35 s', bytes_in, bytes_out, records_in
FROM (
  SELECT *, lag(at) OVER topic AS before, extract(epoch FROM at) AS epoch,
    extract(epoch FROM lag(at) OVER topic) AS before_epoch
  FROM old_topic_scrape WHERE at >= now() - interval '2 days' AND at <= now()
  WINDOW topic AS (PARTITION BY cluster_id, broker_id, topic ORDER BY at)
) AS reading
WHERE before IS NULL OR floor(epoch / 10) > floor(before_epoch / 10);

INSERT INTO consumer_lag_sample
SELECT cluster_id, group_id,
  CASE WHEN before_epoch IS NULL OR floor(epoch / 600) > floor(before_epoch / 600) THEN 600
    WHEN floor(epoch / 60) > floor(before_epoch / 60) THEN 60 ELSE 10 END,
  at, lag
FROM (
  SELECT *, extract(epoch FROM at) AS epoch, extract(epoch FROM lag(at) OVER one) AS before_epoch
  FROM old_consumer_lag_sample WHERE at >= now() - interval '2 days' AND at <= now()
  WINDOW one AS (PARTITION BY cluster_id, group_id ORDER BY at)
) AS sample
WHERE before_epoch IS NULL OR floor(epoch / 10) > floor(before_epoch / 10);

DROP TABLE old_metric_scrape, old_topic_scrape, old_consumer_lag_sample;
SELECT set_config('app.owner_path', '', true);
