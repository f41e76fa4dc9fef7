-- The latest address of each customer out of a stream of changes, and how many there were.
SET 'auto.offset.reset' = 'earliest';
SET 'cache.max.bytes.buffering' = '0'; -- every change is told, not only the last of a moment

CREATE STREAM address_changes (customer INT KEY, email STRING)
  WITH (kafka_topic='address_changes', value_format='JSON', partitions=1);

CREATE TABLE addresses AS
  SELECT customer, LATEST_BY_OFFSET(email) AS email, COUNT(*) AS changes
  FROM address_changes GROUP BY customer EMIT CHANGES;

INSERT INTO address_changes VALUES (7, 'ann@old.example');
INSERT INTO address_changes VALUES (7, 'ann@new.example');

SELECT customer, email, changes FROM addresses EMIT CHANGES LIMIT 2;
-- => 7 ann@new.example 2
