import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.function.Consumer;
import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.api.*;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/** Prints what Kafka Streams describes of each named topology; `tests/streams/dsl/topologies.py` has the same in Python. */
@SuppressWarnings({"unchecked", "rawtypes"})
public final class Describe {
    private static final Map<String, Consumer<StreamsBuilder>> PLANS = new LinkedHashMap<>();
    private static final Set<String> OPTIMIZED = new java.util.HashSet<>();
    private static final Duration MINUTE = Duration.ofMinutes(1);

    private static void plan(String name, Consumer<StreamsBuilder> made) {
        PLANS.put(name, made);
    }

    /** Described twice: as it is, and with every optimisation under the name with `optimized-` before it. */
    private static void both(String name, Consumer<StreamsBuilder> made) {
        plan(name, made);
        plan("optimized-" + name, made);
        OPTIMIZED.add("optimized-" + name);
    }

    public static void main(String[] arguments) throws Exception {
        streams();
        grouped();
        windows();
        tables();
        joins();
        tableJoins();
        processors();
        optimizations();
        Map<String, String> found = new LinkedHashMap<>();
        for (Map.Entry<String, Consumer<StreamsBuilder>> each : PLANS.entrySet()) {
            StreamsBuilder builder = new StreamsBuilder();
            each.getValue().accept(builder);
            Properties properties = new Properties();
            if (OPTIMIZED.contains(each.getKey())) {
                properties.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, StreamsConfig.OPTIMIZE);
            }
            found.put(each.getKey(), builder.build(properties).describe().toString());
        }
        found.put("topology-builder", byHand().describe().toString());
        System.out.println(new ObjectMapper().writeValueAsString(found));
    }

    private static KeyValue pair(Object k, Object v) {
        return new KeyValue(k, v);
    }

    private static void streams() {
        plan("word-count", b -> b.stream("lines").flatMapValues(v -> Arrays.asList("a")).groupBy((k, v) -> v).count()
            .toStream().to("counts"));
        plan("stateless", b -> {
            KStream s = b.stream("in").filter((k, v) -> true).filterNot((k, v) -> false).mapValues(v -> v).peek((k, v) -> { });
            s.map((k, v) -> pair(k, v)).flatMap((k, v) -> Arrays.asList(pair(k, v))).selectKey((k, v) -> v).to("out");
            s.flatMapValues(v -> Arrays.asList(v)).foreach((k, v) -> { });
            s.print(Printed.toSysOut());
        });
        plan("stateless-named", b -> {
            KStream s = b.stream("in", Consumed.as("read")).filter((k, v) -> true, Named.as("keep"))
                .filterNot((k, v) -> false, Named.as("drop")).mapValues(v -> v, Named.as("change")).peek((k, v) -> { }, Named.as("look"));
            s.map((k, v) -> pair(k, v), Named.as("map")).flatMap((k, v) -> Arrays.asList(pair(k, v)), Named.as("flat"))
                .selectKey((k, v) -> v, Named.as("key")).to("out", Produced.as("write"));
            s.flatMapValues(v -> Arrays.asList(v), Named.as("values")).foreach((k, v) -> { }, Named.as("each"));
            s.filter((k, v) -> true).to("unnamed");
        });
        plan("several-topics", b -> {
            b.stream(Arrays.asList("one", "two", "three")).to("out");
            b.stream(Pattern.compile("logs-.*")).to("all-logs");
        });
        plan("same-topic-twice", b -> {
            KStream one = b.stream("in");
            KStream two = b.stream("in");
            one.mapValues(v -> v).to("a");
            two.filter((k, v) -> true).to("b");
            b.stream("other").to("c");
        });
        plan("merge", b -> {
            KStream a = b.stream("a");
            KStream c = b.stream("b");
            a.merge(c).merge(b.stream("c"), Named.as("all")).to("out");
        });
        plan("split", b -> {
            Map<String, KStream> branches = (Map) b.stream("in").split()
                .branch((k, v) -> true).branch((k, v) -> true).defaultBranch();
            branches.get("KSTREAM-BRANCH-00000000011").to("first");
            branches.get("KSTREAM-BRANCH-00000000010").mapValues(v -> v).to("rest");
            branches.get("KSTREAM-BRANCH-00000000012").to("second");
        });
        plan("split-named", b -> {
            Map<String, KStream> branches = (Map) b.stream("in").split(Named.as("by-size-"))
                .branch((k, v) -> true, Branched.as("big"))
                .branch((k, v) -> true, Branched.withConsumer(s -> s.to("middle"), "middle"))
                .branch((k, v) -> true, Branched.withFunction(s -> s.mapValues(v -> v), "small")).noDefaultBranch();
            branches.get("by-size-small").to("small");
            branches.get("by-size-big").to("big");
        });
        plan("repartition", b -> b.stream("in").repartition().mapValues(v -> v)
            .repartition((Repartitioned) Repartitioned.as("again").withNumberOfPartitions(3)).to("out"));
        plan("to-table", b -> {
            b.stream("in").toTable().toStream().to("a");
            b.stream("other").selectKey((k, v) -> v).toTable(Named.as("latest"), Materialized.as("latest-store"))
                .toStream(Named.as("changes")).to("b");
            b.stream("third").selectKey((k, v) -> v).toTable().toStream().to("c");
        });
        plan("re-keyed-twice", b -> b.stream("in").selectKey((k, v) -> v).groupByKey().count().toStream().selectKey((k, v) -> v)
            .groupByKey().count().toStream().to("out"));
    }

    private static void grouped() {
        plan("count-by-key", b -> b.stream("in").groupByKey().count().toStream().to("out"));
        plan("count-materialized-without-name", b -> b.stream("in").groupByKey()
            .count((Materialized) Materialized.with(Serdes.String(), Serdes.Long())).toStream().to("out"));
        plan("count-named", b -> b.stream("in").groupBy((k, v) -> v, (Grouped) Grouped.as("by-value"))
            .count(Named.as("counting"), Materialized.as("counts")).toStream().to("out"));
        plan("reduce", b -> {
            KGroupedStream grouped = b.stream("in").groupBy((k, v) -> v);
            grouped.reduce((a, v) -> v).toStream().to("a");
            grouped.reduce((a, v) -> v, Named.as("latest"), Materialized.as("latest-store")).toStream().to("b");
        });
        plan("aggregate", b -> {
            KGroupedStream grouped = b.stream("in").selectKey((k, v) -> v).groupByKey(Grouped.as("shared"));
            grouped.aggregate(() -> "", (k, v, a) -> a).toStream().to("a");
            grouped.aggregate(() -> "", (k, v, a) -> a, Named.as("folded"), Materialized.as("folds")).toStream().to("b");
            grouped.count().toStream().to("c");
        });
        plan("cogroup", b -> {
            KGroupedStream one = b.stream("one").groupByKey();
            KGroupedStream two = b.stream("two").groupBy((k, v) -> v);
            KGroupedStream three = b.stream("three").selectKey((k, v) -> v).groupByKey(Grouped.as("third"));
            one.cogroup((k, v, a) -> a).cogroup(two, (k, v, a) -> a).cogroup(three, (k, v, a) -> a)
                .aggregate(() -> "").toStream().to("out");
        });
        plan("cogroup-named", b -> {
            KGroupedStream one = b.stream("one").groupByKey();
            KGroupedStream two = b.stream("two").groupByKey();
            one.cogroup((k, v, a) -> a).cogroup(two, (k, v, a) -> a)
                .aggregate(() -> "", Named.as("both"), Materialized.as("both-store")).toStream().to("out");
        });
        plan("cogroup-windowed", b -> {
            KGroupedStream one = b.stream("one").groupByKey();
            KGroupedStream two = b.stream("two").groupBy((k, v) -> v);
            CogroupedKStream both = one.cogroup((k, v, a) -> a).cogroup(two, (k, v, a) -> a);
            both.windowedBy(TimeWindows.ofSizeWithNoGrace(MINUTE)).aggregate(() -> "").toStream().to("a");
            both.windowedBy(SessionWindows.ofInactivityGapWithNoGrace(MINUTE)).aggregate(() -> "", (k, x, y) -> x).toStream().to("b");
            both.windowedBy(SlidingWindows.ofTimeDifferenceWithNoGrace(MINUTE)).aggregate(() -> "").toStream().to("c");
        });
    }

    private static void windows() {
        plan("tumbling-count", b -> b.stream("in").groupByKey().windowedBy(TimeWindows.ofSizeWithNoGrace(MINUTE)).count()
            .toStream().to("out"));
        plan("windowed-materialized-without-name", b -> {
            KGroupedStream grouped = b.stream("in").groupByKey();
            grouped.windowedBy(TimeWindows.ofSizeWithNoGrace(MINUTE)).count(Materialized.with(null, null)).toStream().to("a");
            grouped.windowedBy(SlidingWindows.ofTimeDifferenceWithNoGrace(MINUTE)).count(Materialized.with(null, null))
                .toStream().to("b");
            grouped.windowedBy(SessionWindows.ofInactivityGapWithNoGrace(MINUTE)).count(Materialized.with(null, null))
                .toStream().to("c");
        });
        plan("hopping-reduce", b -> b.stream("in").groupBy((k, v) -> v)
            .windowedBy(TimeWindows.ofSizeAndGrace(MINUTE, MINUTE).advanceBy(Duration.ofSeconds(10)))
            .reduce((a, v) -> v, Named.as("latest"), Materialized.as("latest-store")).toStream().to("out"));
        plan("sliding-aggregate", b -> b.stream("in").groupBy((k, v) -> v)
            .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(MINUTE, MINUTE)).aggregate(() -> "", (k, v, a) -> a)
            .toStream().to("out"));
        plan("session", b -> {
            SessionWindowedKStream sessions = b.stream("in").groupByKey().windowedBy(
                SessionWindows.ofInactivityGapAndGrace(MINUTE, MINUTE));
            sessions.count().toStream().to("a");
            sessions.reduce((a, v) -> v).toStream().to("b");
            sessions.aggregate(() -> "", (k, v, a) -> a, (k, x, y) -> x, Named.as("folded"), Materialized.as("folds"))
                .toStream().to("c");
        });
        plan("unlimited", b -> b.stream("in").groupByKey().windowedBy(UnlimitedWindows.of()).count().toStream().to("out"));
        plan("emit-on-close", b -> b.stream("in").groupByKey().windowedBy(TimeWindows.ofSizeWithNoGrace(MINUTE))
            .emitStrategy(EmitStrategy.onWindowClose()).count().toStream().to("out"));
        plan("suppress-until-close", b -> b.stream("in").groupByKey().windowedBy(TimeWindows.ofSizeWithNoGrace(MINUTE)).count()
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())).filter((k, v) -> true)
            .toStream((k, v) -> k.toString()).to("out"));
        plan("suppress-time-limit", b -> {
            KTable counts = b.stream("in").groupByKey().count();
            counts.suppress(Suppressed.untilTimeLimit(MINUTE, Suppressed.BufferConfig.maxRecords(10))).toStream().to("a");
            counts.suppress(Suppressed.untilTimeLimit(MINUTE, Suppressed.BufferConfig.maxBytes(10)).withName("slow"))
                .toStream().to("b");
        });
        plan("windowed-then-grouped", b -> b.stream("in").groupByKey().windowedBy(TimeWindows.ofSizeWithNoGrace(MINUTE)).count()
            .toStream().groupBy((k, v) -> k.toString()).reduce((a, v) -> v).toStream().to("out"));
    }

    private static void tables() {
        plan("table", b -> b.table("in").toStream().to("out"));
        plan("table-named", b -> b.table("in", Consumed.as("users"), Materialized.as("users-store")).toStream().to("out"));
        plan("table-steps", b -> {
            KTable t = b.table("in");
            t.filter((k, v) -> true).mapValues(v -> v).filterNot((k, v) -> false).toStream().to("out");
            t.mapValues((k, v) -> v, Named.as("change")).filter((k, v) -> true, Named.as("keep")).toStream(Named.as("go")).to("b");
        });
        plan("table-steps-materialized", b -> {
            KTable t = b.table("in");
            t.filter((k, v) -> true, Materialized.as("kept")).mapValues(v -> v, Materialized.as("changed")).toStream().to("out");
            t.filter((k, v) -> true, Materialized.with(null, null)).mapValues(v -> v, Materialized.with(null, null))
                .toStream().to("b");
        });
        plan("table-group-by", b -> {
            KGroupedTable g = b.table("in").groupBy((k, v) -> pair(v, k));
            g.count().toStream().to("a");
            g.reduce((a, v) -> v, (a, v) -> a).toStream().to("b");
            g.aggregate(() -> "", (k, v, a) -> a, (k, v, a) -> a).toStream().to("c");
        });
        plan("table-group-by-named", b -> {
            KGroupedTable g = b.table("in").filter((k, v) -> true).groupBy((k, v) -> pair(v, k), Grouped.as("by-value"));
            g.count(Named.as("counting"), Materialized.as("counts")).toStream().to("a");
            g.aggregate(() -> "", (k, v, a) -> a, (k, v, a) -> a, Named.as("folding"), Materialized.as("folds")).toStream().to("b");
        });
        plan("table-transform-values", b -> {
            b.addStateStore(store("seen"));
            b.table("in").transformValues(() -> new Transform(), "seen").toStream().to("out");
            b.table("other").transformValues(() -> new Transform(), Materialized.as("kept"), Named.as("change"), "seen")
                .toStream().to("out2");
        });
        plan("versioned", b -> {
            KTable t = b.table("in", (Materialized) Materialized.as(Stores.persistentVersionedKeyValueStore("history", MINUTE)));
            b.stream("clicks").join(t, (v, w) -> v, (Joined) Joined.as("match").withGracePeriod(Duration.ofSeconds(10))).to("out");
            b.stream("views").leftJoin(t, (v, w) -> v,
                (Joined) Joined.with(null, null, null).withGracePeriod(Duration.ofSeconds(10))).to("out2");
        });
    }

    private static void joins() {
        JoinWindows windows = JoinWindows.ofTimeDifferenceWithNoGrace(MINUTE);
        plan("stream-join", b -> b.stream("a").join(b.stream("b"), (v, w) -> v, windows).to("out"));
        plan("stream-left-join", b -> b.stream("a").leftJoin(b.stream("b"), (v, w) -> v, windows).to("out"));
        plan("stream-outer-join", b -> b.stream("a").outerJoin(b.stream("b"), (v, w) -> v, windows).to("out"));
        plan("stream-joins-named", b -> {
            KStream a = b.stream("a");
            KStream c = b.stream("b");
            a.join(c, (v, w) -> v, windows, (StreamJoined) StreamJoined.as("inner-store").withName("inner")).to("x");
            a.leftJoin(c, (v, w) -> v, windows, (StreamJoined) StreamJoined.as("left-store").withName("left")).to("y");
            a.outerJoin(c, (v, w) -> v, windows, (StreamJoined) StreamJoined.with(null, null, null).withName("outer")).to("z");
            a.outerJoin(c, (v, w) -> v, windows, (StreamJoined) StreamJoined.as("only-store")).to("w");
        });
        both("stream-join-re-keyed", b -> {
            KStream a = b.stream("a").selectKey((k, v) -> v);
            KStream c = b.stream("b").selectKey((k, v) -> v);
            a.join(c, (v, w) -> v, windows).to("x");
            a.leftJoin(c, (v, w) -> v, windows).to("y");
            a.outerJoin(b.stream("c"), (v, w) -> v, windows, (StreamJoined) StreamJoined.with(null, null, null).withName("named"))
                .to("z");
        });
        plan("stream-self-join", b -> {
            KStream a = b.stream("a");
            a.join(a, (v, w) -> v, windows).to("out");
        });
        plan("stream-table-join", b -> {
            KTable t = b.table("t");
            b.stream("a").join(t, (v, w) -> v).to("x");
            b.stream("b").leftJoin(t, (v, w) -> v, Joined.as("left")).to("y");
        });
        plan("stream-table-join-re-keyed", b -> {
            KTable t = b.table("t").filter((k, v) -> true);
            KStream a = b.stream("a").selectKey((k, v) -> v);
            a.join(t, (v, w) -> v).to("x");
            a.leftJoin(t, (v, w) -> v).to("y");
            a.leftJoin(t, (v, w) -> v, Joined.as("left")).to("z");
        });
        plan("global-join", b -> {
            GlobalKTable g = b.globalTable("g");
            GlobalKTable h = b.globalTable("h", Consumed.as("global"), Materialized.as("global-store"));
            KStream a = b.stream("a");
            a.join(g, (k, v) -> v, (v, w) -> v).to("x");
            a.leftJoin(h, (k, v) -> v, (v, w) -> v, Named.as("left")).groupByKey().count().toStream().to("y");
        });
    }

    private static void tableJoins() {
        plan("table-join", b -> {
            KTable a = b.table("a");
            KTable c = b.table("b");
            a.join(c, (v, w) -> v).toStream().to("x");
        });
        plan("table-joins", b -> {
            KTable a = b.table("a");
            KTable c = b.table("b");
            a.join(c, (v, w) -> v, Materialized.as("joined")).leftJoin(b.table("c"), (v, w) -> v).toStream().to("x");
            a.leftJoin(c, (v, w) -> v, Named.as("left")).filter((k, v) -> true).toStream().to("y");
            a.outerJoin(c, (v, w) -> v, Named.as("outer"), Materialized.as("outer-store")).toStream().to("z");
            a.join(c, (v, w) -> v, Materialized.with(null, null)).toStream().to("w");
        });
        plan("table-join-of-steps", b -> {
            KTable a = b.table("a").mapValues(v -> v).filter((k, v) -> true);
            KTable c = b.stream("b").groupByKey().count();
            KTable d = b.stream("d").toTable();
            a.join(c, (v, w) -> v).outerJoin(d, (v, w) -> v).groupBy((k, v) -> pair(v, k)).count().toStream().to("x");
        });
        plan("foreign-key-join", b -> {
            KTable a = b.table("a");
            KTable c = b.table("b");
            a.join(c, v -> v, (v, w) -> v).toStream().to("x");
        });
        plan("foreign-key-left-join-named", b -> {
            KTable a = b.table("a");
            KTable c = b.stream("b").groupByKey().reduce((x, y) -> y);
            a.leftJoin(c, (java.util.function.Function) v -> v, (ValueJoiner) (v, w) -> v, TableJoined.as("orders"),
                Materialized.as("orders-store")).filter((k, v) -> true).toStream().to("x");
        });
        plan("foreign-key-join-chained", b -> {
            KTable a = b.table("a");
            KTable c = b.table("b");
            KTable d = b.table("c");
            a.join(c, v -> v, (v, w) -> v).leftJoin(d, v -> v, (v, w) -> v).join(c, (v, w) -> v).toStream().to("x");
        });
        plan("join-of-suppressed", b -> {
            KTable a = b.stream("a").groupByKey().count()
                .suppress(Suppressed.untilTimeLimit(MINUTE, Suppressed.BufferConfig.unbounded()));
            a.join(b.table("b"), (v, w) -> v).toStream().to("x");
        });
    }

    private static StoreBuilder store(String name) {
        return Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(name), Serdes.String(), Serdes.String());
    }

    /** Does nothing. */
    private static final class Nothing extends ContextualProcessor<Object, Object, Object, Object> {
        @Override
        public void process(Record<Object, Object> record) { }
    }

    /** Does nothing, but names its store. */
    private static final class WithStore implements ProcessorSupplier<Object, Object, Object, Object> {
        @Override
        public Processor<Object, Object, Object, Object> get() {
            return new Nothing();
        }

        @Override
        public Set<StoreBuilder<?>> stores() {
            return Set.of(store("brought"));
        }
    }

    /** Does nothing to values. */
    private static final class Fixed extends ContextualFixedKeyProcessor<Object, Object, Object> {
        @Override
        public void process(FixedKeyRecord<Object, Object> record) { }
    }

    /** Changes nothing. */
    private static final class Transform implements ValueTransformerWithKey {
        @Override
        public void init(org.apache.kafka.streams.processor.ProcessorContext context) { }

        @Override
        public Object transform(Object key, Object value) {
            return value;
        }

        @Override
        public void close() { }
    }

    private static void processors() {
        plan("process", b -> {
            b.addStateStore(store("seen"));
            b.addStateStore(store("also"));
            KStream s = b.stream("in");
            s.process(() -> new Nothing(), "seen", "also").to("x");
            s.processValues(() -> new Fixed(), Named.as("values"), "seen").groupByKey().count().toStream().to("y");
            s.process(() -> new Nothing(), Named.as("free")).groupByKey().count().toStream().to("z");
            s.processValues(() -> new Fixed());
            s.process(new WithStore()).to("w");
        });
        plan("shared-store", b -> {
            b.addStateStore(store("seen"));
            b.stream("one").process(() -> new Nothing(), "seen").to("x");
            b.stream("two").process(() -> new Nothing(), "seen").to("y");
            b.stream("three").process(() -> new Nothing()).to("z");
        });
        plan("global-store", b -> {
            b.addGlobalStore(store("all"), "topic", Consumed.with(null, null), () -> (Processor) new Nothing());
            b.stream("in").process(() -> new Nothing()).to("out");
        });
        plan("many-children", b -> {
            KStream s = b.stream("in");
            for (int i = 0; i < 14; i++) {
                KStream t = s;
                for (int j = 0; j < (i * 5) % 4; j++) {
                    t = t.mapValues(v -> v);
                }
                t.to("out-" + i);
            }
            s.filter((k, v) -> true).merge(s.mapValues(v -> v)).merge(s).to("merged");
        });
        plan("many-stores", b -> {
            String[] names = new String[20];
            for (int i = 0; i < 20; i++) {
                names[i] = "store-" + i;
                b.addStateStore(store(names[i]));
            }
            b.stream("in").process(() -> new Nothing(), names).to("out");
        });
    }

    private static void optimizations() {
        both("reused-source-topic", b -> {
            b.table("in", Materialized.as("kept")).toStream().to("out");
            b.table("other").join(b.table("third"), (v, w) -> v).toStream().to("out2");
        });
        both("merged-repartitions", b -> {
            KStream s = b.stream("in").map((k, v) -> pair(v, k));
            s.groupByKey().count().toStream().to("a");
            s.filter((k, v) -> true).groupByKey().reduce((a, v) -> v).toStream().to("b");
            s.groupByKey().windowedBy(TimeWindows.ofSizeWithNoGrace(MINUTE)).count().toStream().to("c");
            s.mapValues(v -> v).groupByKey().count().toStream().to("d");
        });
        both("merged-repartitions-named", b -> {
            KStream s = b.stream("in").selectKey((k, v) -> v);
            s.groupByKey(Grouped.as("first")).count().toStream().to("a");
            s.groupByKey(Grouped.as("second")).reduce((a, v) -> v).toStream().to("b");
            s.join(b.stream("other"), (v, w) -> v, JoinWindows.ofTimeDifferenceWithNoGrace(MINUTE)).to("c");
        });
        both("merged-repartitions-behind-merge", b -> {
            KStream s = b.stream("one").selectKey((k, v) -> v).merge(b.stream("two").selectKey((k, v) -> v));
            s.groupByKey().count().toStream().to("a");
            s.groupByKey().reduce((a, v) -> v).toStream().to("b");
        });
        both("cogroup-of-one-stream", b -> {
            KStream s = b.stream("in").selectKey((k, v) -> v);
            KGroupedStream one = s.groupByKey(Grouped.as("one"));
            KGroupedStream two = s.filter((k, v) -> true).groupByKey(Grouped.as("two"));
            one.cogroup((k, v, a) -> a).cogroup(two, (k, v, a) -> a).aggregate(() -> "").toStream().to("out");
        });
    }

    private static Topology byHand() {
        Topology topology = new Topology();
        topology.addSource("words", "in", "more").addSource("logs", Pattern.compile("logs-.*"))
            .addProcessor("split", () -> (Processor) new Nothing(), "words")
            .addProcessor("count", () -> (Processor) new Nothing(), "split", "logs")
            .addStateStore(store("counts"), "count")
            .addProcessor("watch", () -> (Processor) new Nothing(), "split")
            .connectProcessorAndStateStores("watch", "counts")
            .addSink("write", "out", "count").addSink("alarm", "alarms", "watch", "count");
        return topology;
    }
}
