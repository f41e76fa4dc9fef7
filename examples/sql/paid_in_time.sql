-- Orders that are paid within an hour: two streams joined in a window of time.
SET 'auto.offset.reset' = 'earliest';
SET 'cache.max.bytes.buffering' = '0'; -- every change is told, not only the last of a moment

CREATE STREAM placed (id STRING KEY, total DOUBLE) WITH (kafka_topic='placed', value_format='JSON', partitions=1);

CREATE STREAM payments (id STRING KEY, paid DOUBLE) WITH (kafka_topic='payments', value_format='JSON', partitions=1);

CREATE STREAM paid_in_time AS
  SELECT p.id AS id, p.total AS total, m.paid AS paid
  FROM placed p INNER JOIN payments m WITHIN 1 HOUR GRACE PERIOD 5 MINUTES ON p.id = m.id EMIT CHANGES;

INSERT INTO placed (rowtime, id, total) VALUES (0, 'o1', 10.0);
INSERT INTO placed (rowtime, id, total) VALUES (0, 'o2', 20.0);
INSERT INTO payments (rowtime, id, paid) VALUES (1800000, 'o1', 10.0);

SELECT id, total, paid FROM paid_in_time EMIT CHANGES LIMIT 1;
-- => o1 10.0 10.0
