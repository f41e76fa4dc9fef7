-- Orders with what is known of the customer when they come: a stream joined with a table.
SET 'auto.offset.reset' = 'earliest';
SET 'cache.max.bytes.buffering' = '0'; -- every change is told, not only the last of a moment

CREATE TABLE customers (id INT PRIMARY KEY, name STRING, city STRING)
  WITH (kafka_topic='customers', value_format='JSON', partitions=1);

CREATE STREAM orders (id STRING KEY, customer INT, total DOUBLE)
  WITH (kafka_topic='customer_orders', value_format='JSON', partitions=1);

INSERT INTO customers (rowtime, id, name, city) VALUES (1000, 1, 'Ann', 'Oslo');
INSERT INTO customers (rowtime, id, name, city) VALUES (1000, 2, 'Ben', 'Lima');

CREATE STREAM orders_with_city AS
  SELECT o.customer AS customer, o.id AS order_id, c.name AS name, c.city AS city, o.total AS total
  FROM orders o LEFT JOIN customers c ON o.customer = c.id EMIT CHANGES;

INSERT INTO orders VALUES ('o1', 2, 12.5);

SELECT order_id, name, city, total FROM orders_with_city EMIT CHANGES LIMIT 1;
-- => o1 Ben Lima 12.5
