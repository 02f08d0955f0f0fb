-- Which write-ahead log a node joined with: its streams' newest records may be there alone.
ALTER TABLE nodes ADD COLUMN log_id BIGINT;
UPDATE nodes SET log_id = 0 WHERE state IS NOT NULL;

-- A broker that is about to stop is given nothing more to lead.
ALTER TABLE nodes ADD COLUMN draining BOOLEAN NOT NULL DEFAULT false;
