-- PostgreSQL costs array comparisons the same whatever their length, so it may prefer this index to objects_by_streams, which
-- finds the stream sets of some streams many times faster. The extra condition hides this index from statements that do not repeat it.
DROP INDEX objects_stream_sets;
CREATE INDEX objects_stream_sets ON objects (object_id) WHERE state = 2 AND kind = 1 AND object_id >= 0;
