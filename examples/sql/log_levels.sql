-- Publish and subscribe: errors of all services go to a stream of their own, by service, whoever reads it.
SET 'auto.offset.reset' = 'earliest';
SET 'cache.max.bytes.buffering' = '0'; -- every change is told, not only the last of a moment

CREATE STREAM logs (service STRING, level STRING, message STRING)
  WITH (kafka_topic='logs', value_format='JSON', partitions=2);

CREATE STREAM errors AS
  SELECT service, UCASE(level) AS level, message
  FROM logs WHERE UCASE(level) IN ('ERROR', 'FATAL') PARTITION BY service EMIT CHANGES;

INSERT INTO logs VALUES ('shop', 'info', 'started');
INSERT INTO logs VALUES ('shop', 'error', 'no stock');
INSERT INTO logs VALUES ('bank', 'Fatal', 'disk-full');

SELECT service, level, message FROM errors WHERE service = 'bank' EMIT CHANGES LIMIT 1;
-- => bank FATAL disk-full
