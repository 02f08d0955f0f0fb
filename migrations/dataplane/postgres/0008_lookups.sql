-- PostgreSQL thinks that comparing two arrays costs the same whatever their lengths. Those of stream sets have thousands of
-- streams, so that every way of finding the sets of some streams takes many times as long as by objects_by_streams. With one
-- more condition, this index is no such way for a statement that does not name it.
DROP INDEX objects_stream_sets;
CREATE INDEX objects_stream_sets ON objects (object_id) WHERE state = 2 AND kind = 1 AND object_id >= 0;
