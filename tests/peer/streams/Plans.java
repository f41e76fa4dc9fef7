import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.processor.TopicNameExtractor;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/** Makes a topology of a list of DSL calls; each step has an `op`, what it is called on (`of`), and names its result (`id`). */
@SuppressWarnings({"unchecked", "rawtypes"})
final class Plans {
    private final StreamsBuilder builder = new StreamsBuilder();
    private final Map<String, Object> made = new HashMap<>();

    static Topology build(JsonNode steps) {
        Plans plans = new Plans();
        for (JsonNode step : steps) {
            Object result = plans.step(step);
            if (step.has("id")) {
                plans.made.put(step.get("id").asText(), result);
            }
        }
        return plans.builder.build();
    }

    private Object step(JsonNode step) {
        String op = step.get("op").asText();
        Object of = step.has("of") ? made.get(step.get("of").asText()) : null;
        switch (op) {
            case "stream": return builder.stream(topics(step), consumed(step));
            case "table": return table(step);
            case "global_table": return globalTable(step);
            case "store": return builder.addStateStore(storeBuilder(step));
            default: break;
        }
        if (of instanceof KStream) {
            return streamStep(op, (KStream) of, step);
        }
        if (of instanceof KTable) {
            return tableStep(op, (KTable) of, step);
        }
        if (of instanceof KGroupedStream) {
            return groupedStep(op, (KGroupedStream) of, step);
        }
        if (of instanceof KGroupedTable) {
            return groupedTableStep(op, (KGroupedTable) of, step);
        }
        return windowedStep(op, of, step);
    }

    // -- sources

    private Object table(JsonNode step) {
        String topic = step.get("topic").asText();
        return step.has("store") || step.has("versioned")
            ? builder.table(topic, consumed(step), materialized(step)) : builder.table(topic, consumed(step));
    }

    private Object globalTable(JsonNode step) {
        String topic = step.get("topic").asText();
        return step.has("store")
            ? builder.globalTable(topic, consumed(step), materialized(step)) : builder.globalTable(topic, consumed(step));
    }

    private static java.util.Collection<String> topics(JsonNode step) {
        java.util.List<String> topics = new java.util.ArrayList<>();
        if (step.has("topics")) {
            step.get("topics").forEach(each -> topics.add(each.asText()));
        } else {
            topics.add(step.get("topic").asText());
        }
        return topics;
    }

    private Consumed consumed(JsonNode step) {
        Consumed consumed = Consumed.with(serde(step, "key"), serde(step, "value"));
        if (step.has("extractor")) {
            TimestampExtractor extractor = (record, previous) -> {
                switch (step.get("extractor").asText()) {
                    case "value": return record.value() == null ? previous : (Long) record.value();
                    case "minus_10": return record.timestamp() - 10;
                    default: throw new IllegalArgumentException("no extractor");
                }
            };
            consumed = consumed.withTimestampExtractor(extractor);
        }
        return step.has("name") ? consumed.withName(step.get("name").asText()) : consumed;
    }

    private static StoreBuilder storeBuilder(JsonNode step) {
        String name = step.get("name").asText();
        Serde key = serde(step, "key");
        Serde value = serde(step, "value");
        switch (step.get("kind").asText()) {
            case "key_value": return Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(name), key, value);
            case "timestamped_key_value":
                return Stores.timestampedKeyValueStoreBuilder(Stores.persistentTimestampedKeyValueStore(name), key, value);
            case "window":
                return Stores.windowStoreBuilder(
                    Stores.persistentWindowStore(name, millis(step, "retention"), millis(step, "size"), false), key, value);
            case "session":
                return Stores.sessionStoreBuilder(Stores.persistentSessionStore(name, millis(step, "retention")), key, value);
            default: throw new IllegalArgumentException("no kind of store " + step.get("kind"));
        }
    }

    // -- streams

    private Object streamStep(String op, KStream stream, JsonNode step) {
        String fn = step.has("fn") ? step.get("fn").asText() : null;
        Named named = named(step);
        Predicate predicate = (k, v) -> Functions.test(fn, k, v);
        KeyValueMapper mapper = (k, v) -> Functions.map(fn, k, v);
        ValueMapperWithKey values = (k, v) -> Functions.map(fn, k, v);
        switch (op) {
            case "filter": return named == null ? stream.filter(predicate) : stream.filter(predicate, named);
            case "filter_not": return named == null ? stream.filterNot(predicate) : stream.filterNot(predicate, named);
            case "map": return named == null ? stream.map(mapper) : stream.map(mapper, named);
            case "map_values": return named == null ? stream.mapValues(values) : stream.mapValues(values, named);
            case "flat_map": return named == null ? stream.flatMap(mapper) : stream.flatMap(mapper, named);
            case "flat_map_values": return named == null ? stream.flatMapValues(values) : stream.flatMapValues(values, named);
            case "select_key": return named == null ? stream.selectKey(mapper) : stream.selectKey(mapper, named);
            case "merge": return named == null ? stream.merge((KStream) other(step)) : stream.merge((KStream) other(step), named);
            case "split": return split(stream, step);
            case "peek": return stream.peek((k, v) -> { });
            case "repartition": {
                Repartitioned how = Repartitioned.with(serde(step, "key"), serde(step, "value"));
                return stream.repartition(step.has("name") ? how.withName(step.get("name").asText()) : how);
            }
            case "to": return to(stream, step);
            case "to_table": return toTable(stream, step);
            case "group_by": return grouped(step) == null ? stream.groupBy(mapper) : stream.groupBy(mapper, grouped(step));
            case "group_by_key": return grouped(step) == null ? stream.groupByKey() : stream.groupByKey(grouped(step));
            case "process":
                return stream.process(() -> Processors.free(step), stores(step));
            case "process_values":
                return stream.processValues(() -> Processors.fixed(step), stores(step));
            case "join": case "left_join": case "outer_join": return streamJoin(op, stream, other(step), step);
            default: throw new IllegalArgumentException("a stream has no " + op);
        }
    }

    private static String[] stores(JsonNode step) {
        java.util.List<String> names = new java.util.ArrayList<>();
        step.path("stores").forEach(each -> names.add(each.asText()));
        return names.toArray(new String[0]);
    }

    private Object split(KStream stream, JsonNode step) {
        BranchedKStream branched = step.has("name") ? stream.split(named(step)) : stream.split();
        for (JsonNode branch : step.get("branches")) {
            String id = branch.get("id").asText();
            Branched how = Branched.withConsumer(chosen -> made.put(id, chosen));
            if (branch.has("name")) {
                how = Branched.withConsumer(chosen -> made.put(id, chosen), branch.get("name").asText());
            }
            if (branch.has("fn")) {
                String fn = branch.get("fn").asText();
                Predicate predicate = (k, v) -> Functions.test(fn, k, v);
                branched = branched.branch(predicate, how);
            } else {
                return branched.defaultBranch(how);
            }
        }
        return branched.noDefaultBranch();
    }

    private Object to(KStream stream, JsonNode step) {
        Produced produced = step.has("key") || step.has("value")
            ? Produced.with(serde(step, "key"), serde(step, "value")) : Produced.with(null, null);
        if (step.has("name")) {
            produced = produced.withName(step.get("name").asText());
        }
        if (step.has("topic_by_key")) {
            TopicNameExtractor extractor = (k, v, context) -> step.get("topic_by_key").asText() + k;
            stream.to(extractor, produced);
        } else {
            stream.to(step.get("topic").asText(), produced);
        }
        return null;
    }

    private Object toTable(KStream stream, JsonNode step) {
        Named named = named(step);
        Materialized how = materialized(step);
        return named == null ? stream.toTable(how) : stream.toTable(named, how);
    }

    private Object streamJoin(String op, KStream stream, Object other, JsonNode step) {
        ValueJoinerWithKey joiner = joiner(step);
        if (other instanceof KStream) {
            return windowedJoin(op, stream, (KStream) other, step);
        }
        if (other instanceof KTable) {
            Joined joined = Joined.with(serde(step, "key"), serde(step, "value"), serde(step, "other_value"));
            if (step.has("name")) {
                joined = joined.withName(step.get("name").asText());
            }
            if (step.has("grace")) {
                joined = joined.withGracePeriod(millis(step, "grace"));
            }
            return op.equals("join")
                ? stream.join((KTable) other, joiner, joined) : stream.leftJoin((KTable) other, joiner, joined);
        }
        String select = step.get("select").asText();
        KeyValueMapper key = (k, v) -> Functions.map(select, k, v);
        return op.equals("join")
            ? stream.join((GlobalKTable) other, key, joiner) : stream.leftJoin((GlobalKTable) other, key, joiner);
    }

    private Object windowedJoin(String op, KStream stream, KStream other, JsonNode step) {
        JsonNode window = step.get("windows");
        JoinWindows windows = window.has("grace")
            ? JoinWindows.ofTimeDifferenceAndGrace(Duration.ZERO, millis(window, "grace")) : JoinWindows.of(Duration.ZERO);
        windows = windows.after(millis(window, "after")).before(millis(window, "before"));
        StreamJoined how = StreamJoined.with(serde(step, "key"), serde(step, "value"), serde(step, "other_value"));
        if (step.has("name")) {
            how = how.withName(step.get("name").asText());
        }
        if (step.has("store")) {
            how = how.withStoreName(step.get("store").asText());
        }
        ValueJoinerWithKey joiner = joiner(step);
        switch (op) {
            case "join": return stream.join(other, joiner, windows, how);
            case "left_join": return stream.leftJoin(other, joiner, windows, how);
            default: return stream.outerJoin(other, joiner, windows, how);
        }
    }

    // -- tables

    private Object tableStep(String op, KTable table, JsonNode step) {
        String fn = step.has("fn") ? step.get("fn").asText() : null;
        Named named = named(step);
        Predicate predicate = (k, v) -> Functions.test(fn, k, v);
        ValueMapperWithKey values = (k, v) -> Functions.map(fn, k, v);
        KeyValueMapper mapper = (k, v) -> Functions.map(fn, k, v);
        boolean kept = step.has("store") || step.has("materialized");
        switch (op) {
            case "filter":
                return kept ? table.filter(predicate, materialized(step)) : table.filter(predicate);
            case "filter_not":
                return kept ? table.filterNot(predicate, materialized(step)) : table.filterNot(predicate);
            case "map_values":
                return kept ? table.mapValues(values, materialized(step)) : table.mapValues(values);
            case "to_stream":
                return fn == null ? (named == null ? table.toStream() : table.toStream(named)) : table.toStream(mapper);
            case "suppress": return table.suppress(suppressed(step));
            case "group_by": return grouped(step) == null ? table.groupBy(mapper) : table.groupBy(mapper, grouped(step));
            case "join": case "left_join": case "outer_join": return tableJoin(op, table, (KTable) other(step), step);
            case "fk_join": case "fk_left_join": return foreignKeyJoin(op, table, (KTable) other(step), step);
            default: throw new IllegalArgumentException("a table has no " + op);
        }
    }

    private Object tableJoin(String op, KTable table, KTable other, JsonNode step) {
        String fn = step.get("fn").asText();
        ValueJoiner joiner = (left, right) -> Functions.join(fn, null, left, right);
        boolean kept = step.has("store") || step.has("materialized");
        switch (op) {
            case "join": return kept ? table.join(other, joiner, materialized(step)) : table.join(other, joiner);
            case "left_join":
                return kept ? table.leftJoin(other, joiner, materialized(step)) : table.leftJoin(other, joiner);
            default: return kept ? table.outerJoin(other, joiner, materialized(step)) : table.outerJoin(other, joiner);
        }
    }

    private Object foreignKeyJoin(String op, KTable table, KTable other, JsonNode step) {
        String fn = step.get("fn").asText();
        String foreign = step.get("foreign").asText();
        ValueJoiner joiner = (left, right) -> Functions.join(fn, null, left, right);
        java.util.function.BiFunction extractor = (k, v) -> Functions.map(foreign, k, v);
        TableJoined how = step.has("name") ? TableJoined.as(step.get("name").asText()) : TableJoined.with(null, null);
        Materialized kept = materialized(step);
        return op.equals("fk_join")
            ? table.join(other, extractor, joiner, how, kept) : table.leftJoin(other, extractor, joiner, how, kept);
    }

    private static Suppressed suppressed(JsonNode step) {
        Suppressed result;
        if (step.get("until").asText().equals("window_close")) {
            Suppressed.StrictBufferConfig strict = Suppressed.BufferConfig.unbounded();
            if (step.has("max_records")) {
                strict = Suppressed.BufferConfig.maxRecords(step.get("max_records").asLong()).shutDownWhenFull();
            }
            result = Suppressed.untilWindowCloses(strict);
        } else {
            Suppressed.BufferConfig buffer = Suppressed.BufferConfig.unbounded();
            if (step.has("max_records")) {
                Suppressed.EagerBufferConfig eager = Suppressed.BufferConfig.maxRecords(step.get("max_records").asLong());
                buffer = step.path("full").asText("emit").equals("emit") ? eager.emitEarlyWhenFull() : eager.shutDownWhenFull();
            }
            result = Suppressed.untilTimeLimit(millis(step, "wait"), buffer);
        }
        return step.has("name") ? result.withName(step.get("name").asText()) : result;
    }

    // -- groups

    private Object groupedStep(String op, KGroupedStream grouped, JsonNode step) {
        String fn = step.has("fn") ? step.get("fn").asText() : null;
        Aggregator adder = (k, v, aggregate) -> Functions.aggregate(fn, k, v, aggregate);
        Reducer reducer = (one, other) -> Functions.reduce(fn, one, other);
        Named named = named(step);
        Materialized how = materialized(step);
        switch (op) {
            case "count": return named == null ? grouped.count(how) : grouped.count(named, how);
            case "reduce": return named == null ? grouped.reduce(reducer, how) : grouped.reduce(reducer, named, how);
            case "aggregate":
                return named == null
                    ? grouped.aggregate(initializer(step), adder, how) : grouped.aggregate(initializer(step), adder, named, how);
            case "cogroup": return grouped.cogroup(adder);
            case "windowed_by": return windowedBy(grouped, step);
            default: throw new IllegalArgumentException("a grouped stream has no " + op);
        }
    }

    private static Object windowedBy(KGroupedStream grouped, JsonNode step) {
        Object windows = windows(step.get("windows"));
        if (windows instanceof SessionWindows) {
            SessionWindowedKStream result = grouped.windowedBy((SessionWindows) windows);
            return step.has("emit") ? result.emitStrategy(emit(step)) : result;
        }
        TimeWindowedKStream result = windows instanceof SlidingWindows
            ? grouped.windowedBy((SlidingWindows) windows) : grouped.windowedBy((Windows) windows);
        return step.has("emit") ? result.emitStrategy(emit(step)) : result;
    }

    private static EmitStrategy emit(JsonNode step) {
        return step.get("emit").asText().equals("close") ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
    }

    private Object groupedTableStep(String op, KGroupedTable grouped, JsonNode step) {
        String fn = step.has("fn") ? step.get("fn").asText() : null;
        String back = step.has("subtract") ? step.get("subtract").asText() : null;
        Materialized how = materialized(step);
        Reducer adder = (one, other) -> Functions.reduce(fn, one, other);
        Reducer subtractor = (one, other) -> Functions.reduce(back, one, other);
        Aggregator add = (k, v, aggregate) -> Functions.aggregate(fn, k, v, aggregate);
        Aggregator subtract = (k, v, aggregate) -> Functions.aggregate(back, k, v, aggregate);
        switch (op) {
            case "count": return grouped.count(how);
            case "reduce": return grouped.reduce(adder, subtractor, how);
            case "aggregate": return grouped.aggregate(initializer(step), add, subtract, how);
            default: throw new IllegalArgumentException("a grouped table has no " + op);
        }
    }

    /** Steps of windowed and cogrouped streams. */
    private Object windowedStep(String op, Object of, JsonNode step) {
        String fn = step.has("fn") ? step.get("fn").asText() : null;
        Aggregator adder = (k, v, aggregate) -> Functions.aggregate(fn, k, v, aggregate);
        Reducer reducer = (one, other) -> Functions.reduce(fn, one, other);
        Merger merger = (k, one, other) -> Functions.merge(step.get("merge").asText(), k, one, other);
        Materialized how = materialized(step);
        String kind = op + " of " + (of instanceof TimeWindowedKStream ? "time" : of instanceof SessionWindowedKStream
            ? "session" : of instanceof CogroupedKStream ? "cogroup" : of instanceof TimeWindowedCogroupedKStream
            ? "time cogroup" : of instanceof SessionWindowedCogroupedKStream ? "session cogroup" : "nothing");
        switch (kind) {
            case "count of time": return ((TimeWindowedKStream) of).count(how);
            case "reduce of time": return ((TimeWindowedKStream) of).reduce(reducer, how);
            case "aggregate of time": return ((TimeWindowedKStream) of).aggregate(initializer(step), adder, how);
            case "count of session": return ((SessionWindowedKStream) of).count(how);
            case "reduce of session": return ((SessionWindowedKStream) of).reduce(reducer, how);
            case "aggregate of session":
                return ((SessionWindowedKStream) of).aggregate(initializer(step), adder, merger, how);
            case "cogroup of cogroup": return ((CogroupedKStream) of).cogroup((KGroupedStream) other(step), adder);
            case "aggregate of cogroup": return ((CogroupedKStream) of).aggregate(initializer(step), how);
            case "windowed_by of cogroup": {
                Object windows = windows(step.get("windows"));
                CogroupedKStream cogrouped = (CogroupedKStream) of;
                return windows instanceof SessionWindows ? cogrouped.windowedBy((SessionWindows) windows)
                    : windows instanceof SlidingWindows ? cogrouped.windowedBy((SlidingWindows) windows)
                    : cogrouped.windowedBy((Windows) windows);
            }
            case "aggregate of time cogroup": return ((TimeWindowedCogroupedKStream) of).aggregate(initializer(step), how);
            case "aggregate of session cogroup":
                return ((SessionWindowedCogroupedKStream) of).aggregate(initializer(step), merger, how);
            default: throw new IllegalArgumentException("no " + kind);
        }
    }

    // -- parameters

    private Object other(JsonNode step) {
        return made.get(step.get("with").asText());
    }

    private static ValueJoinerWithKey joiner(JsonNode step) {
        String fn = step.get("fn").asText();
        return (key, left, right) -> Functions.join(fn, key, left, right);
    }

    private static Initializer initializer(JsonNode step) {
        return () -> Functions.initial(step.get("initial").asText());
    }

    private static Named named(JsonNode step) {
        return step.has("name") ? Named.as(step.get("name").asText()) : null;
    }

    /** Null where a step says nothing: then Java takes over the stream's serdes, which it does not beside a `Grouped`. */
    private static Grouped grouped(JsonNode step) {
        if (!step.has("key") && !step.has("value") && !step.has("name")) {
            return null;
        }
        Grouped grouped = Grouped.with(serde(step, "key"), serde(step, "value"));
        return step.has("name") ? grouped.withName(step.get("name").asText()) : grouped;
    }

    private static Materialized materialized(JsonNode step) {
        Materialized how;
        if (step.has("versioned")) {
            how = Materialized.as(Stores.persistentVersionedKeyValueStore(step.get("store").asText(), millis(step, "versioned")));
        } else if (step.has("store")) {
            how = Materialized.as(step.get("store").asText());
        } else {
            how = Materialized.with(null, null);
        }
        if (step.path("memory").asBoolean()) {
            how = how.withStoreType(new BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers());
        }
        if (step.has("retention")) {
            how = how.withRetention(millis(step, "retention"));
        }
        if (step.has("logged") && !step.get("logged").asBoolean()) {
            how = how.withLoggingDisabled();
        }
        return how.withKeySerde(serde(step, "key")).withValueSerde(serde(step, "value"));
    }

    private static Object windows(JsonNode windows) {
        Duration grace = windows.has("grace") ? millis(windows, "grace") : Duration.ZERO;
        switch (windows.get("kind").asText()) {
            case "time": {
                TimeWindows result = TimeWindows.ofSizeAndGrace(millis(windows, "size"), grace);
                return windows.has("advance") ? result.advanceBy(millis(windows, "advance")) : result;
            }
            case "sliding": return SlidingWindows.ofTimeDifferenceAndGrace(millis(windows, "difference"), grace);
            case "session": return SessionWindows.ofInactivityGapAndGrace(millis(windows, "gap"), grace);
            case "unlimited": return UnlimitedWindows.of().startOn(java.time.Instant.ofEpochMilli(windows.path("start").asLong()));
            default: throw new IllegalArgumentException("no windows " + windows);
        }
    }

    static Duration millis(JsonNode step, String field) {
        return Duration.ofMillis(step.get(field).asLong());
    }

    static Serde serde(JsonNode step, String field) {
        if (!step.has(field)) {
            return null;
        }
        return serde(step.get(field).asText());
    }

    static Serde serde(String name) {
        switch (name) {
            case "string": return Serdes.String();
            case "long": return Serdes.Long();
            case "integer": return Serdes.Integer();
            case "double": return Serdes.Double();
            case "bytes": return Serdes.ByteArray();
            default: throw new IllegalArgumentException("no serde " + name);
        }
    }
}
