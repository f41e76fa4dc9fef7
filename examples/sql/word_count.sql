-- How often each word was said: a stream of lines becomes a table of words.
SET 'auto.offset.reset' = 'earliest';
SET 'cache.max.bytes.buffering' = '0'; -- every change is told, not only the last of a moment

CREATE STREAM lines (line STRING) WITH (kafka_topic='lines', value_format='JSON', partitions=1);

CREATE STREAM words AS SELECT EXPLODE(SPLIT(LCASE(line), ' ')) AS word FROM lines EMIT CHANGES;

CREATE TABLE word_counts AS SELECT word, COUNT(*) AS said FROM words GROUP BY word EMIT CHANGES;

INSERT INTO lines VALUES ('a log is a log');
INSERT INTO lines VALUES ('A stream');

SELECT word, said FROM word_counts WHERE word = 'a' EMIT CHANGES LIMIT 3;
-- => a 3
