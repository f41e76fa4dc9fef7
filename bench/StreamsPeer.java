import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;

/**
 * The benchmark's plans in Kafka Streams: `StreamsPeer PLAN SOURCE SINK FROM UNTIL KEY=VALUE...`.
 *
 * Prints RUNNING once it runs. With UNTIL above zero it then prints the seconds between its FROM-th and its UNTIL-th processed
 * record, with the exact numbers, and ends; else it runs until its input is closed.
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

    private static void build(StreamsBuilder builder, String plan, String source, String sink) {
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

    private static void measure(KafkaStreams streams, long from, long until) throws InterruptedException {
        long first = 0;
        long begun = 0;
        while (true) {
            long done = processed(streams);
            long now = System.nanoTime();
            if (begun == 0 && done >= from) {
                begun = now;
                first = done;
            }
            if (done >= until) {
                System.out.println((now - begun) / 1e9 + " " + first + " " + done);
                return;
            }
            Thread.sleep(10);
        }
    }

    private static long processed(KafkaStreams streams) {
        return (long) streams.metrics().entrySet().stream()
            .filter(each -> each.getKey().group().equals("stream-thread-metrics") && each.getKey().name().equals("process-total"))
            .mapToDouble(each -> (Double) each.getValue().metricValue()).sum();
    }
}
