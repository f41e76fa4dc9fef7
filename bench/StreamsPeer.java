import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;

/**
 * The benchmark's plans in Kafka Streams: `StreamsPeer PLAN SOURCE SINK FROM UNTIL KEY=VALUE...`.
 *
 * Prints RUNNING once it runs. With UNTIL above zero it then prints the seconds between its FROM-th and its UNTIL-th processed
 * record, with the exact numbers and the processor time between, and ends; else it runs until its input is closed.
 */
public final class StreamsPeer {
    private StreamsPeer() {}

    public static void main(String[] args) throws Exception {
        long from = Long.parseLong(args[3]);
        long until = Long.parseLong(args[4]);
        Properties settings = new Properties();
        for (String each : Arrays.copyOfRange(args, 5, args.length)) {
            int at = each.indexOf('=');
            settings.put(each.substring(0, at), each.substring(at + 1));
        }
        StreamsBuilder builder = new StreamsBuilder();
        build(builder, args[0], args[1], args[2]);
        CountDownLatch running = new CountDownLatch(1);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                running.countDown();
            } else if (now == KafkaStreams.State.ERROR) {
                System.err.println("the application is in state ERROR");
                Runtime.getRuntime().halt(1);
            }
        });
        streams.start();
        running.await();
        System.out.println("RUNNING");
        if (until > 0) {
            measure(streams, from, until);
        } else {
            while (System.in.read() >= 0) { }
        }
        // what it holds is thrown away with its topics: nothing is flushed for it
        if (until <= 0) {
            streams.close(Duration.ofSeconds(10));
        }
        Runtime.getRuntime().halt(0);
    }

    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final Serde<JsonNode> JSON = Serdes.serdeFrom(
        (topic, row) -> {
            try {
                return row == null ? null : MAPPER.writeValueAsBytes(row);
            } catch (java.io.IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
        },
        (topic, bytes) -> {
            try {
                return bytes == null ? null : MAPPER.readTree(bytes);
            } catch (java.io.IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
        });

    private static KStream<String, JsonNode> orders(StreamsBuilder builder, String source) {
        return builder.stream(source, Consumed.with(Serdes.String(), JSON));
    }

    private static ObjectNode row(String name, JsonNode value) {
        ObjectNode made = MAPPER.createObjectNode();
        made.set(name, value);
        return made;
    }

    private static JsonNode totals() {
        return MAPPER.createObjectNode().put("N", 0L).put("QTY", 0L);
    }

    private static JsonNode added(JsonNode row, JsonNode total) {
        return MAPPER.createObjectNode().put("N", total.get("N").longValue() + 1)
            .put("QTY", total.get("QTY").longValue() + row.get("QTY").intValue());
    }

    private static void build(StreamsBuilder builder, String plan, String source, String sink) {
        if (plan.startsWith("sql-")) {
            buildSql(builder, plan, source, sink);
            return;
        }
        KStream<String, String> stream = builder.stream(source, Consumed.with(Serdes.String(), Serdes.String()));
        Produced<String, Long> longs = Produced.with(Serdes.String(), Serdes.Long());
        switch (plan) {
            case "map":
                stream.mapValues(value -> value.toUpperCase(Locale.ROOT))
                    .to(sink, Produced.with(Serdes.String(), Serdes.String()));
                break;
            case "words":
                stream.flatMapValues(value -> Arrays.asList(value.toLowerCase(Locale.ROOT).split(" ")))
                    .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                    .count(Materialized.as("counts")).toStream().to(sink, longs);
                break;
            case "windows":
                stream.groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
                    .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), Duration.ofMinutes(5)))
                    .count(Materialized.as("counts")).toStream()
                    .to(sink, Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 60_000L), Serdes.Long()));
                break;
            case "stateful":
                stream.groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
                    .aggregate(() -> 0L, (key, value, total) -> total + value.length(),
                        Materialized.<String, Long, org.apache.kafka.streams.state.KeyValueStore<
                            org.apache.kafka.common.utils.Bytes, byte[]>>as("totals").withValueSerde(Serdes.Long()))
                    .toStream().to(sink, longs);
                break;
            default:
                throw new IllegalArgumentException(plan);
        }
    }

    /** What `bench.sql` asks for: rows of JSON, as one who writes Java reads and writes them. */
    private static void buildSql(StreamsBuilder builder, String plan, String source, String sink) {
        switch (plan) {
            case "sql-filter":
                orders(builder, source).filter((key, row) -> row.get("QTY").intValue() > 4)
                    .mapValues(row -> row("ITEM", row.get("ITEM")).put("PAID", row.get("QTY").intValue()
                        * row.get("PRICE").doubleValue()))
                    .mapValues(row -> (JsonNode) row)
                    .to(sink, Produced.with(Serdes.String(), JSON));
                break;
            case "sql-aggregate":
                orders(builder, source).groupByKey(Grouped.with(Serdes.String(), JSON))
                    .aggregate(StreamsPeer::totals, (key, row, total) -> added(row, total),
                        Materialized.<String, JsonNode, org.apache.kafka.streams.state.KeyValueStore<
                            org.apache.kafka.common.utils.Bytes, byte[]>>as("totals").withValueSerde(JSON))
                    .toStream().to(sink, Produced.with(Serdes.String(), JSON));
                break;
            case "sql-window":
                orders(builder, source).groupByKey(Grouped.with(Serdes.String(), JSON))
                    .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), Duration.ofMinutes(5)))
                    .aggregate(StreamsPeer::totals, (key, row, total) -> added(row, total),
                        Materialized.<String, JsonNode, org.apache.kafka.streams.state.WindowStore<
                            org.apache.kafka.common.utils.Bytes, byte[]>>as("totals").withKeySerde(Serdes.String())
                            .withValueSerde(JSON))
                    .toStream()
                    .to(sink, Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 60_000L), JSON));
                break;
            case "sql-join":
                orders(builder, source).join(
                        builder.table("bench-customers", Consumed.with(Serdes.String(), JSON)),
                        (row, customer) -> (JsonNode) row("ITEM", row.get("ITEM")).set("NAME", customer.get("NAME")),
                        Joined.with(Serdes.String(), JSON, JSON))
                    .to(sink, Produced.with(Serdes.String(), JSON));
                break;
            default:
                throw new IllegalArgumentException(plan);
        }
    }

    private static void measure(KafkaStreams streams, long from, long until) throws InterruptedException {
        long first = 0;
        long begun = 0;
        long spent = 0;
        while (true) {
            long done = processed(streams);
            long now = System.nanoTime();
            if (begun == 0 && done >= from) {
                begun = now;
                first = done;
                spent = processorNanos();
            }
            if (done >= until) {
                System.out.println((now - begun) / 1e9 + " " + first + " " + done + " "
                    + (processorNanos() - spent) / 1e9);
                return;
            }
            Thread.sleep(10);
        }
    }

    private static long processorNanos() {
        return ((com.sun.management.OperatingSystemMXBean)
            java.lang.management.ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private static long processed(KafkaStreams streams) {
        return (long) streams.metrics().entrySet().stream()
            .filter(each -> each.getKey().group().equals("stream-thread-metrics") && each.getKey().name().equals("process-total"))
            .mapToDouble(each -> (Double) each.getValue().metricValue()).sum();
    }
}
