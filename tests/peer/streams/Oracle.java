import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.ReadOnlySessionStore;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.test.TestRecord;

/**
 * What Kafka Streams makes of a case: one line of JSON in (`topology`, `inputs`, `settings`), one line out.
 *
 * The answer has `describe`; `outputs`: by topic, in order, [key, value, timestamp] or with headers as fourth; changelog and
 * repartition topics too; `stores`: the entries as text; `dropped`; and `error` where building or running threw. Bytes are
 * strings of the characters 0 to 255.
 */
public final class Oracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Oracle() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = cases.readLine(); line != null; line = cases.readLine()) {
            answers.println(JSON.writeValueAsString(run(JSON.readTree(line), args[0])));
            answers.flush();
        }
    }

    private static ObjectNode run(JsonNode given, String folder) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            Topology topology = Plans.build(given.get("topology"));
            answer.put("describe", topology.describe().toString());
            try (TopologyTestDriver driver = new TopologyTestDriver(topology, settings(given, folder), Instant.EPOCH)) {
                try {
                    pipe(driver, given);
                } finally {
                    answer.set("outputs", outputs(driver));
                    answer.set("stores", stores(driver));
                    answer.put("dropped", dropped(driver));
                }
            }
        } catch (RuntimeException failure) {
            Throwable cause = failure;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            answer.put("error", cause.getClass().getSimpleName() + ": " + cause.getMessage());
        }
        return answer;
    }

    private static Properties settings(JsonNode given, String folder) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, folder);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, "org.apache.kafka.common.serialization.Serdes$StringSerde");
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, "org.apache.kafka.common.serialization.Serdes$StringSerde");
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0");
        given.path("settings").fields().forEachRemaining(each -> settings.put(each.getKey(), each.getValue().asText()));
        return settings;
    }

    private static void pipe(TopologyTestDriver driver, JsonNode given) {
        Map<String, Serde<Object>[]> serdes = inputSerdes(given.get("topology"));
        Map<String, TestInputTopic<byte[], byte[]>> topics = new HashMap<>();
        for (JsonNode input : given.get("inputs")) {
            if (input.has("advance")) {
                driver.advanceWallClockTime(Duration.ofMillis(input.get("advance").asLong()));
                continue;
            }
            String topic = input.get("topic").asText();
            TestInputTopic<byte[], byte[]> to = topics.computeIfAbsent(
                topic, name -> driver.createInputTopic(name, new ByteArraySerializer(), new ByteArraySerializer()));
            RecordHeaders headers = new RecordHeaders();
            input.path("headers").fields().forEachRemaining(each ->
                headers.add(each.getKey(), each.getValue().asText().getBytes(StandardCharsets.UTF_8)));
            byte[] key = serdes.get(topic)[0].serializer().serialize(topic, value(input.get("key"), serdes.get(topic)[0]));
            byte[] value = serdes.get(topic)[1].serializer().serialize(topic, value(input.get("value"), serdes.get(topic)[1]));
            to.pipeInput(new TestRecord<>(key, value, headers, input.get("ts").asLong()));
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Serde<Object>[]> inputSerdes(JsonNode steps) {
        Map<String, Serde<Object>[]> result = new HashMap<>();
        for (JsonNode step : steps) {
            List<String> topics = new ArrayList<>();
            step.path("topics").forEach(each -> topics.add(each.asText()));
            if (step.has("topic") && !step.get("op").asText().equals("to")) {
                topics.add(step.get("topic").asText());
            }
            for (String topic : topics) {
                result.put(topic, new Serde[] {Plans.serde(step, "key"), Plans.serde(step, "value")});
            }
        }
        return result;
    }

    private static Object value(JsonNode given, Serde<Object> serde) {
        if (given == null || given.isNull()) {
            return null;
        }
        String serializer = serde.serializer().getClass().getSimpleName();
        switch (serializer) {
            case "LongSerializer": return given.asLong();
            case "IntegerSerializer": return given.asInt();
            case "DoubleSerializer": return given.asDouble();
            case "ByteArraySerializer": return given.asText().getBytes(StandardCharsets.ISO_8859_1);
            default: return given.asText();
        }
    }

    private static ObjectNode outputs(TopologyTestDriver driver) {
        ObjectNode result = JSON.createObjectNode();
        for (String name : new TreeSet<>(driver.producedTopicNames())) {
            ArrayNode records = result.putArray(name);
            TestOutputTopic<byte[], byte[]> topic =
                driver.createOutputTopic(name, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            for (TestRecord<byte[], byte[]> record : topic.readRecordsToList()) {
                ArrayNode one = records.addArray().add(text(record.key())).add(text(record.value())).add(record.timestamp());
                if (record.headers().toArray().length > 0) {
                    ArrayNode headers = one.addArray();
                    for (Header header : record.headers()) {
                        headers.addArray().add(header.key()).add(text(header.value()));
                    }
                }
            }
        }
        return result;
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.ISO_8859_1);
    }

    private static ObjectNode stores(TopologyTestDriver driver) {
        ObjectNode result = JSON.createObjectNode();
        new TreeMap<>(driver.getAllStateStores()).forEach((name, store) -> {
            List<ArrayNode> entries = entries(store);
            if (entries != null) {
                result.putArray(name).addAll(entries);
            }
        });
        return result;
    }

    /** An entry is [key, value] as text, the key of a window as `key@start/end`, and the timestamp where the store has one. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static List<ArrayNode> entries(StateStore store) {
        List<ArrayNode> result = new ArrayList<>();
        KeyValueIterator<Object, Object> all;
        if (store instanceof ReadOnlyKeyValueStore) {
            all = ((ReadOnlyKeyValueStore) store).all();
        } else if (store instanceof ReadOnlyWindowStore) {
            all = ((ReadOnlyWindowStore) store).all();
        } else if (store instanceof ReadOnlySessionStore) {
            all = ((ReadOnlySessionStore) store).fetch(null, null);
        } else {
            return null;
        }
        try (all) {
            while (all.hasNext()) {
                KeyValue<Object, Object> each = all.next();
                ArrayNode entry = JSON.createArrayNode();
                entry.add(each.key instanceof Windowed ? Functions.windowText((Windowed<?>) each.key) : Functions.text(each.key));
                if (each.value instanceof ValueAndTimestamp) {
                    ValueAndTimestamp<?> value = (ValueAndTimestamp<?>) each.value;
                    entry.add(Functions.text(value.value())).add(value.timestamp());
                } else {
                    entry.add(Functions.text(each.value));
                }
                result.add(entry);
            }
        }
        return result;
    }

    private static long dropped(TopologyTestDriver driver) {
        double[] sum = {0};
        driver.metrics().forEach((name, metric) -> {
            if (name.name().equals("dropped-records-total")) {
                sum[0] += ((Number) metric.metricValue()).doubleValue();
            }
        });
        return (long) sum[0];
    }
}
