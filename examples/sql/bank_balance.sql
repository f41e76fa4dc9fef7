-- Event sourcing: the balance of an account is the sum of its movements, and can be made again from them.
SET 'auto.offset.reset' = 'earliest';
SET 'cache.max.bytes.buffering' = '0'; -- every change is told, not only the last of a moment

CREATE STREAM movements (account STRING KEY, amount DECIMAL(9, 2))
  WITH (kafka_topic='movements', value_format='JSON', partitions=2);

CREATE TABLE balances AS
  SELECT account, SUM(amount) AS balance, COUNT(*) AS movements FROM movements GROUP BY account EMIT CHANGES;

INSERT INTO movements VALUES ('ann', 100.00);
INSERT INTO movements VALUES ('ann', -30.25);
INSERT INTO movements VALUES ('ann', 0.75);

SELECT account, balance, movements FROM balances EMIT CHANGES LIMIT 3;
-- => ann 70.50 3
