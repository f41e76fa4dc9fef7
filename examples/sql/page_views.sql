-- Views of each page in each minute, by the time of the view and not of its arrival.
SET 'auto.offset.reset' = 'earliest';
SET 'cache.max.bytes.buffering' = '0'; -- every change is told, not only the last of a moment

CREATE STREAM views (page STRING KEY, user_name STRING, seen_at BIGINT)
  WITH (kafka_topic='views', value_format='JSON', partitions=1, timestamp='seen_at');

CREATE TABLE views_per_minute AS
  SELECT page, COUNT(*) AS views, COUNT_DISTINCT(user_name) AS visitors
  FROM views WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 10 MINUTES)
  GROUP BY page EMIT CHANGES;

INSERT INTO views VALUES ('/home', 'ann', 1000);
INSERT INTO views VALUES ('/home', 'ben', 61000);
INSERT INTO views VALUES ('/home', 'ann', 59000);
INSERT INTO views VALUES ('/home', 'ann', 62000);

SELECT page, windowstart, views, visitors FROM views_per_minute EMIT CHANGES LIMIT 4;
-- => /home 0 2 1
-- => /home 60000 2 2
