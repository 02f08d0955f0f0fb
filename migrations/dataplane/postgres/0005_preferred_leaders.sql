-- The node that leads the partition whenever it can; NULL: any node does.
ALTER TABLE partitions ADD COLUMN preferred BIGINT;
