-- An alert for who fails to log in three times within ten seconds.
SET 'auto.offset.reset' = 'earliest';
SET 'cache.max.bytes.buffering' = '0'; -- every change is told, not only the last of a moment

CREATE STREAM logins (user_name STRING KEY, succeeded BOOLEAN)
  WITH (kafka_topic='logins', value_format='JSON', partitions=1);

CREATE TABLE suspects AS
  SELECT user_name, COUNT(*) AS failures
  FROM logins WINDOW TUMBLING (SIZE 10 SECONDS)
  WHERE NOT succeeded
  GROUP BY user_name HAVING COUNT(*) >= 3 EMIT CHANGES;

INSERT INTO logins (rowtime, user_name, succeeded) VALUES (1000, 'eve', false);
INSERT INTO logins (rowtime, user_name, succeeded) VALUES (2000, 'ann', false);
INSERT INTO logins (rowtime, user_name, succeeded) VALUES (3000, 'eve', false);
INSERT INTO logins (rowtime, user_name, succeeded) VALUES (4000, 'ann', true);
INSERT INTO logins (rowtime, user_name, succeeded) VALUES (5000, 'eve', false);

SELECT user_name, failures FROM suspects EMIT CHANGES LIMIT 1;
-- => eve 3
