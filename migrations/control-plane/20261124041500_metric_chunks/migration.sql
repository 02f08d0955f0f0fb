-- Readings of metrics in compressed chunks.
--
-- A row per reading and topic cost 31 GiB per day for 500 clusters, and a chart of a day read thousands of pages. A reading is now
-- one row for everything that a broker told (metric_reading); once the time of a chunk is over, the worker replaces its rows by one
-- row per broker, topic or group (metric_chunk). Both have the retention of before, by the same partitions.
SELECT set_config('app.owner_path', 'on', true);

CREATE TABLE metric_reading (
    cluster_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    broker_id INTEGER NOT NULL,
    resolution INTEGER NOT NULL,
    at TIMESTAMPTZ(3) NOT NULL,
    data BYTEA NOT NULL,

    CONSTRAINT metric_reading_pkey PRIMARY KEY (cluster_id, kind, at, broker_id, resolution)
) PARTITION BY RANGE (resolution, at);

CREATE TABLE metric_chunk (
    cluster_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    source TEXT NOT NULL,
    resolution INTEGER NOT NULL,
    at TIMESTAMPTZ(3) NOT NULL,
    data BYTEA NOT NULL,

    CONSTRAINT metric_chunk_pkey PRIMARY KEY (cluster_id, kind, source, at, resolution)
) PARTITION BY RANGE (resolution, at);

-- The data is compressed before it comes here.
ALTER TABLE metric_reading ALTER COLUMN data SET STORAGE EXTERNAL;
ALTER TABLE metric_chunk ALTER COLUMN data SET STORAGE EXTERNAL;

GRANT SELECT ON metric_reading, metric_chunk TO millrace_api;
GRANT SELECT, INSERT, DELETE ON metric_reading TO millrace_worker;
GRANT SELECT, INSERT, UPDATE ON metric_chunk TO millrace_worker;

DO $$
DECLARE
  owned CONSTANT text := 'EXISTS (SELECT 1 FROM cluster WHERE cluster.id = cluster_id)';
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['metric_reading', 'metric_chunk'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
    EXECUTE format(
      'CREATE POLICY tenant ON %I TO millrace_api, millrace_worker USING (%s) WITH CHECK (%s)', name, owned, owned);
    EXECUTE format(
      'CREATE POLICY owner_path ON %I TO CURRENT_USER USING (current_setting(''app.owner_path'', true) = ''on'')',
      name);
  END LOOP;
END
$$;

-- The partition of a table for one resolution and the time from `lower_seconds`; whether it had to be made. It is made apart and
-- attached, because that blocks no insert. Nobody has rights to a partition itself: rows are only reachable through the parent,
-- whose policies hold for them.
CREATE FUNCTION add_metric_partition(parent text, resolution integer, lower_seconds bigint, width_seconds bigint)
  RETURNS boolean
  LANGUAGE plpgsql SET search_path = pg_catalog, public AS $$
DECLARE
  name CONSTANT text := format('%s_%s_%s', parent, resolution, lower_seconds);
BEGIN
  IF to_regclass(format('public.%I', name)) IS NOT NULL THEN
    RETURN false;
  END IF;
  EXECUTE format('CREATE TABLE public.%I (LIKE public.%I INCLUDING ALL)', name, parent);
  EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
  EXECUTE format(
    'ALTER TABLE public.%I ATTACH PARTITION public.%I FOR VALUES FROM (%s, %L) TO (%s, %L)',
    parent, name, resolution, to_timestamp(lower_seconds), resolution, to_timestamp(lower_seconds + width_seconds));
  RETURN true;
END
$$;

CREATE OR REPLACE FUNCTION prepare_metric_partitions(begins timestamptz, ends timestamptz) RETURNS integer
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  -- About 400 partitions: a wrong range must not fill the catalogue.
  range_max CONSTANT interval := interval '7 days';
  made integer := 0;
  parent text;
  kind record;
  lower_seconds bigint;
BEGIN
  IF ends - begins > range_max THEN
    RAISE EXCEPTION 'partitions for more than % at once: from % to %', range_max, begins, ends;
  END IF;
  PERFORM pg_advisory_xact_lock(hashtext('metric partitions'));
  FOREACH parent IN ARRAY ARRAY['metric_reading', 'metric_chunk'] LOOP
    FOR kind IN SELECT * FROM public.metric_retention() LOOP
      FOR lower_seconds IN
        SELECT generate_series(
          floor(extract(epoch FROM begins) / kind.width_seconds)::bigint * kind.width_seconds,
          floor(extract(epoch FROM ends))::bigint,
          kind.width_seconds)
      LOOP
        IF public.add_metric_partition(parent, kind.resolution, lower_seconds, kind.width_seconds) THEN
          made := made + 1;
        END IF;
      END LOOP;
    END LOOP;
  END LOOP;
  RETURN made;
END
$$;

CREATE OR REPLACE FUNCTION drop_metric_partitions(at timestamptz) RETURNS integer
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
      WHERE i.inhparent IN ('public.metric_reading'::regclass, 'public.metric_chunk'::regclass)
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

REVOKE ALL ON FUNCTION add_metric_partition(text, integer, bigint, bigint) FROM PUBLIC;

SELECT prepare_metric_partitions(now() - interval '1 hour', now() + interval '1 day');

-- Partitions for the times that there are readings of.
SELECT add_metric_partition(parent, kind.resolution, old.lower_seconds, kind.width_seconds)
FROM (
  SELECT DISTINCT (parts[1])::integer AS resolution, (parts[2])::bigint AS lower_seconds
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid AND c.relkind = 'r',
    regexp_match(c.relname, '_(\d+)_(\d+)$') AS parts
  WHERE i.inhparent IN ('metric_scrape'::regclass, 'topic_scrape'::regclass, 'consumer_lag_sample'::regclass)
) AS old
JOIN metric_retention() AS kind ON kind.resolution = old.resolution,
  unnest(ARRAY['metric_reading', 'metric_chunk']) AS parent;

-- Readings of before are JSON, which the repository reads as well. The worker makes chunks of them in time. Numbers are text,
-- because JSON's lose digits.
INSERT INTO metric_reading
SELECT cluster_id, 'broker', broker_id, resolution, at, convert_to(json_build_array(json_build_object(
    'source', broker_id::text, 'brokerId', broker_id, 'afterGap', after_gap,
    'layout', json_build_object(
      'counters', json_build_array('bytesIn', 'bytesOut', 'recordsIn', 'connections', 'cacheHits', 'cacheMisses',
        'cacheFetchedBytes', 'cacheDeliveredBytes', 'networkWaitUs'),
      'boundsUs', coalesce(bucket_bounds_us, '{}'), 'produce', coalesce(cardinality(produce_buckets), 0),
      'fetch', coalesce(cardinality(fetch_buckets), 0)),
    'values', ARRAY[bytes_in, bytes_out, records_in, connections, cache_hits, cache_misses, cache_fetched_bytes,
      cache_delivered_bytes, network_wait_us]::text[]
      || coalesce(produce_buckets, '{}')::text[] || coalesce(fetch_buckets, '{}')::text[]
  ))::text, 'UTF8')
FROM metric_scrape;

INSERT INTO metric_reading
SELECT cluster_id, 'topics', broker_id, resolution, at, convert_to(json_agg(json_build_object(
    'source', topic, 'brokerId', broker_id, 'afterGap', after_gap,
    'layout', json_build_object(
      'counters', json_build_array('bytesIn', 'bytesOut', 'recordsIn'), 'boundsUs', '{}'::text[], 'produce', 0, 'fetch', 0),
    'values', ARRAY[bytes_in, bytes_out, records_in]::text[]
  ) ORDER BY topic)::text, 'UTF8')
FROM topic_scrape GROUP BY cluster_id, broker_id, resolution, at;

INSERT INTO metric_reading
SELECT cluster_id, 'groups', 0, resolution, at, convert_to(json_agg(json_build_object(
    'source', group_id, 'brokerId', 0, 'afterGap', false,
    'layout', json_build_object(
      'counters', json_build_array('lag'), 'boundsUs', '{}'::text[], 'produce', 0, 'fetch', 0),
    'values', ARRAY[lag]::text[]
  ) ORDER BY group_id)::text, 'UTF8')
FROM consumer_lag_sample GROUP BY cluster_id, resolution, at;

DROP TABLE metric_scrape, topic_scrape, consumer_lag_sample;
SELECT set_config('app.owner_path', '', true);
