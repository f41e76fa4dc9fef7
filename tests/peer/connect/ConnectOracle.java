import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Values;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.runtime.AbstractHerder;
import org.apache.kafka.connect.runtime.rest.entities.ConfigInfos;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Runs Apache Kafka Connect's own classes on what Ottla runs its own on: one JSON object in a line, one answer in a line. */
public class ConnectOracle {
    static org.apache.kafka.connect.runtime.isolation.Plugins plugins;
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode answer;
            try {
                answer = answer(JSON.readTree(line));
            } catch (Throwable e) {
                ObjectNode error = JSON.createObjectNode();
                error.put("error", e.getClass().getName());
                error.put("message", e.getMessage());
                answer = error;
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }

    static JsonNode answer(JsonNode asked) throws Exception {
        switch (asked.get("op").asText()) {
            case "parse": return pair(Values.parseString(asked.get("text").asText()));
            case "text": {
                Schema schema = schema(asked.get("schema"));
                return JSON.getNodeFactory().textNode(Values.convertToString(schema, value(asked.get("value"))));
            }
            case "from": {
                Converter converter = converter(asked);
                byte[] data = converter.fromConnectData("t", schema(asked.get("schema")), value(asked.get("value")));
                return bytes(data);
            }
            case "to": return pair(converter(asked).toConnectData("t", data(asked.get("data"))));
            case "header_from": {
                HeaderConverter converter = (HeaderConverter) make(asked);
                converter.configure(config(asked));
                return bytes(converter.fromConnectHeader("t", "h", schema(asked.get("schema")), value(asked.get("value"))));
            }
            case "header_to": {
                HeaderConverter converter = (HeaderConverter) make(asked);
                converter.configure(config(asked));
                return pair(converter.toConnectHeader("t", "h", data(asked.get("data"))));
            }
            case "transform": return transform(asked);
            case "predicate": return predicate(asked);
            case "validate": return validate(asked);
            case "connector_def": {
                Class<?> type = Class.forName("org.apache.kafka.connect.runtime." + asked.get("class").asText());
                ConfigDef def = (ConfigDef) type.getMethod("configDef").invoke(null);
                return JSON.valueToTree(AbstractHerder.generateResult(
                    asked.get("class").asText(), def.configKeys(), def.validate(config(asked)), def.groups()));
            }
            case "worker_def": return workerDef(asked);
            case "overrides": return overrides(asked);
            case "enriched": {
                if (plugins == null)
                    plugins = new org.apache.kafka.connect.runtime.isolation.Plugins(Map.of());
                ConfigDef def = org.apache.kafka.connect.runtime.ConnectorConfig.enrich(
                    plugins, org.apache.kafka.connect.runtime.SinkConnectorConfig.configDef(), config(asked), false);
                return JSON.valueToTree(AbstractHerder.generateResult(
                    "enriched", def.configKeys(), def.validate(config(asked)), def.groups()));
            }
            case "java_map_write": return javaMapWrite(asked);
            case "java_map_read": return javaMapRead(asked);
            case "config_fold": return configFold(asked);
            case "status_fold": return statusFold(asked);
            case "offsets_read": return offsetsRead(asked);
            default: throw new IllegalStateException(asked.get("op").asText());
        }
    }

    static Object make(JsonNode asked) throws Exception {
        return Class.forName(asked.get("class").asText()).getDeclaredConstructor().newInstance();
    }

    static Map<String, String> config(JsonNode asked) {
        return JSON.convertValue(asked.get("config"), new TypeReference<LinkedHashMap<String, String>>() { });
    }

    static Converter converter(JsonNode asked) throws Exception {
        Converter converter = (Converter) make(asked);
        converter.configure(config(asked), asked.path("key").asBoolean());
        return converter;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static JsonNode transform(JsonNode asked) throws Exception {
        Transformation transformation = (Transformation) make(asked);
        transformation.configure(config(asked));
        return record(transformation.apply(record(asked.get("record"))));
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static JsonNode predicate(JsonNode asked) throws Exception {
        Predicate predicate = (Predicate) make(asked);
        predicate.configure(config(asked));
        return JSON.getNodeFactory().booleanNode(predicate.test(record(asked.get("record"))));
    }

    /** A worker's keys, without their prose, and what each makes of a configuration. */
    static JsonNode workerDef(JsonNode asked) throws Exception {
        String name = asked.get("class").asText();
        Class<?> type = Class.forName("org.apache.kafka.connect.runtime." + name);
        ConfigDef def;
        if (name.startsWith("distributed")) {
            Class<?> crypto = Class.forName("org.apache.kafka.connect.runtime.distributed.Crypto");
            java.lang.reflect.Method method = type.getDeclaredMethod("config", crypto);
            method.setAccessible(true);
            def = (ConfigDef) method.invoke(null, crypto.getField("SYSTEM").get(null));
        } else {
            java.lang.reflect.Field field = type.getDeclaredField("CONFIG");
            field.setAccessible(true);
            def = (ConfigDef) field.get(null);
        }
        JsonNode whole = JSON.valueToTree(
            AbstractHerder.generateResult(name, def.configKeys(), def.validate(config(asked)), def.groups()));
        ArrayNode found = JSON.createArrayNode();
        for (JsonNode each : whole.get("configs")) {
            ObjectNode one = JSON.createObjectNode();
            for (String part : List.of("name", "type", "required", "default_value", "importance"))
                one.set(part, each.get("definition").get(part));
            for (String part : List.of("value", "errors"))
                one.set(part, each.get("value").get(part));
            found.add(one);
        }
        return found;
    }

    static JsonNode overrides(JsonNode asked) throws Exception {
        org.apache.kafka.connect.connector.policy.ConnectorClientConfigOverridePolicy policy =
            (org.apache.kafka.connect.connector.policy.ConnectorClientConfigOverridePolicy) make(asked);
        policy.configure(Map.of("connector.client.config.override.allowlist", asked.get("allowlist").asText()));
        String kind = asked.get("kind").asText();
        Map<String, String> given = config(asked);
        ConfigDef def = kind.equals("producer") ? org.apache.kafka.clients.producer.ProducerConfig.configDef()
            : kind.equals("consumer") ? org.apache.kafka.clients.consumer.ConsumerConfig.configDef()
            : org.apache.kafka.clients.admin.AdminClientConfig.configDef();
        for (java.lang.reflect.Method each : AbstractHerder.class.getDeclaredMethods()) {
            if (!each.getName().equals("validateClientOverrides") || each.getParameterCount() != 8)
                continue;
            each.setAccessible(true);
            boolean sink = kind.equals("consumer");
            JsonNode whole = JSON.valueToTree(each.invoke(null, "c", kind + ".override.",
                new org.apache.kafka.common.config.AbstractConfig(new ConfigDef(), given, false), def,
                org.apache.kafka.connect.file.FileStreamSourceConnector.class,
                sink ? org.apache.kafka.connect.health.ConnectorType.SINK : org.apache.kafka.connect.health.ConnectorType.SOURCE,
                org.apache.kafka.connect.connector.policy.ConnectorClientConfigRequest.ClientType.valueOf(kind.toUpperCase(java.util.Locale.ROOT)),
                org.apache.kafka.common.internals.Plugin.wrapInstance(policy, null, "policy")));
            TreeMap<String, JsonNode> sorted = new TreeMap<>();
            for (JsonNode one : whole.get("configs")) {
                if (one.get("definition").isObject())
                    ((ObjectNode) one.get("definition")).remove("documentation");
                sorted.put(one.get("value").get("name").asText(), one);
            }
            ((ObjectNode) whole).set("configs", JSON.valueToTree(sorted.values()));
            return whole;
        }
        throw new IllegalStateException("validateClientOverrides");
    }

    static JsonNode validate(JsonNode asked) throws Exception {
        Object plugin = make(asked);
        ConfigDef def = (ConfigDef) plugin.getClass().getMethod("config").invoke(plugin);
        ConfigInfos infos = AbstractHerder.generateResult(
            plugin.getClass().getName(), def.configKeys(), def.validate(config(asked)), def.groups());
        return JSON.valueToTree(infos);
    }

    static JsonNode javaMapWrite(JsonNode asked) throws Exception {
        HashMap<byte[], byte[]> raw = new HashMap<>();
        for (JsonNode entry : asked.get("entries"))
            raw.put(data(entry.get(0)), data(entry.get(1)));
        java.io.ByteArrayOutputStream out = new java.io.ByteArrayOutputStream();
        try (java.io.ObjectOutputStream stream = new java.io.ObjectOutputStream(out)) {
            stream.writeObject(raw);
        }
        return bytes(out.toByteArray());
    }

    static JsonNode javaMapRead(JsonNode asked) throws Exception {
        java.io.ObjectInputStream in = new java.io.ObjectInputStream(new java.io.ByteArrayInputStream(data(asked.get("data"))));
        ArrayNode entries = JSON.createArrayNode();
        for (Map.Entry<?, ?> entry : ((Map<?, ?>) in.readObject()).entrySet())
            entries.addArray().add(bytes((byte[]) entry.getKey())).add(bytes((byte[]) entry.getValue()));
        ObjectNode answer = JSON.createObjectNode();
        answer.put("t", "map").set("v", entries);
        return answer;
    }

    static org.apache.kafka.connect.json.JsonConverter internalConverter() {
        org.apache.kafka.connect.json.JsonConverter converter = new org.apache.kafka.connect.json.JsonConverter();
        converter.configure(Map.of("schemas.enable", "false"), false);
        return converter;
    }

    static org.apache.kafka.clients.consumer.ConsumerRecord<String, byte[]> consumed(JsonNode entry, long offset) {
        return new org.apache.kafka.clients.consumer.ConsumerRecord<>("t", 0, offset, entry.get(0).asText(), data(entry.get(1)));
    }

    /** The fold of the configuration topic, through KafkaConfigBackingStore's own callback. */
    static JsonNode configFold(JsonNode asked) throws Exception {
        // Its constructor asks a cluster for its id, so the object is made without it.
        java.lang.reflect.Field unsafe = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        Class<?> type = org.apache.kafka.connect.storage.KafkaConfigBackingStore.class;
        org.apache.kafka.connect.storage.KafkaConfigBackingStore store = (org.apache.kafka.connect.storage.KafkaConfigBackingStore)
            ((sun.misc.Unsafe) unsafe.get(null)).allocateInstance(type);
        for (java.lang.reflect.Field field : type.getDeclaredFields()) {
            if (java.lang.reflect.Modifier.isStatic(field.getModifiers()))
                continue;
            field.setAccessible(true);
            if (field.getName().equals("lock"))
                field.set(store, new Object());
            else if (field.getName().equals("converter"))
                field.set(store, internalConverter());
            else if (field.getName().equals("offset"))
                field.set(store, -1L);
            else if (field.getType() == Map.class)
                field.set(store, new HashMap<>());
            else if (field.getType() == java.util.Set.class)
                field.set(store, new java.util.HashSet<>());
        }
        Class<?> kind = Class.forName("org.apache.kafka.connect.storage.KafkaConfigBackingStore$ConsumeCallback");
        java.lang.reflect.Constructor<?> constructor = kind.getDeclaredConstructors()[0];
        constructor.setAccessible(true);
        java.lang.reflect.Method read = kind.getDeclaredMethod(
            "onCompletion", Throwable.class, org.apache.kafka.clients.consumer.ConsumerRecord.class);
        read.setAccessible(true);
        Object callback = constructor.newInstance(store);
        long offset = 0;
        for (JsonNode entry : asked.get("records"))
            read.invoke(callback, null, consumed(entry, offset++));
        org.apache.kafka.connect.storage.ClusterConfigState state = store.snapshot();
        ObjectNode answer = JSON.createObjectNode();
        answer.put("offset", state.offset());
        answer.put("session_key", state.sessionKey() == null ? null
            : Base64.getEncoder().encodeToString(state.sessionKey().key().getEncoded()));
        for (String connector : new java.util.TreeSet<>(state.connectors())) {
            ObjectNode one = answer.putObject("connector " + connector);
            one.set("config", JSON.valueToTree(state.rawConnectorConfig(connector)));
            one.set("applied", JSON.valueToTree(state.appliedConnectorConfig(connector)));
            one.put("target", String.valueOf(state.targetState(connector)));
            one.put("tasks", state.tasks(connector).size());
            one.put("count", state.taskCount(connector));
            one.put("fencing", state.pendingFencing(connector));
            one.put("count_record", state.taskCountRecord(connector));
            one.put("generation", state.taskConfigGeneration(connector));
            one.put("inconsistent", state.inconsistentConnectors().contains(connector));
            ArrayNode configs = one.putArray("task_configs");
            for (int task = 0; task < 4; task++)
                configs.add(JSON.valueToTree(
                    state.rawTaskConfig(new org.apache.kafka.connect.util.ConnectorTaskId(connector, task))));
        }
        return answer;
    }

    /** The fold of the status topic, through KafkaStatusBackingStore's own reader. */
    static JsonNode statusFold(JsonNode asked) throws Exception {
        Class<?> kind = org.apache.kafka.connect.storage.KafkaStatusBackingStore.class;
        java.lang.reflect.Constructor<?> constructor = kind.getConstructor(
            org.apache.kafka.common.utils.Time.class, Converter.class, java.util.function.Supplier.class, String.class);
        org.apache.kafka.connect.storage.KafkaStatusBackingStore store =
            (org.apache.kafka.connect.storage.KafkaStatusBackingStore) constructor.newInstance(
                org.apache.kafka.common.utils.Time.SYSTEM, internalConverter(), null, "c-");
        java.lang.reflect.Method read = kind.getDeclaredMethod("read", org.apache.kafka.clients.consumer.ConsumerRecord.class);
        read.setAccessible(true);
        long offset = 0;
        for (JsonNode entry : asked.get("records"))
            read.invoke(store, consumed(entry, offset++));
        ObjectNode answer = JSON.createObjectNode();
        for (JsonNode name : asked.get("connectors")) {
            ObjectNode one = answer.putObject(name.asText());
            one.set("connector", status(store.get(name.asText())));
            ArrayNode tasks = one.putArray("tasks");
            for (int task = 0; task < 4; task++)
                tasks.add(status(store.get(new org.apache.kafka.connect.util.ConnectorTaskId(name.asText(), task))));
            ObjectNode topics = one.putObject("topics");
            for (org.apache.kafka.connect.runtime.TopicStatus topic : store.getAllTopics(name.asText()))
                topics.put(topic.topic(), topic.task() + "/" + topic.discoverTimestamp());
        }
        return answer;
    }

    static JsonNode status(org.apache.kafka.connect.runtime.AbstractStatus<?> status) {
        if (status == null)
            return JSON.nullNode();
        ObjectNode node = JSON.createObjectNode();
        node.put("state", status.state().name());
        node.put("worker", status.workerId());
        node.put("generation", status.generation());
        node.put("trace", status.trace());
        node.put("version", status.version());
        return node;
    }

    static JsonNode offsetsRead(JsonNode asked) throws Exception {
        org.apache.kafka.connect.storage.FileOffsetBackingStore store =
            new org.apache.kafka.connect.storage.FileOffsetBackingStore(internalConverter());
        Map<String, String> props = new HashMap<>();
        props.put("bootstrap.servers", "localhost:9092");
        props.put("key.converter", "org.apache.kafka.connect.json.JsonConverter");
        props.put("value.converter", "org.apache.kafka.connect.json.JsonConverter");
        props.put("offset.storage.file.filename", asked.get("file").asText());
        store.configure(new org.apache.kafka.connect.runtime.standalone.StandaloneConfig(props));
        store.start();
        List<ByteBuffer> keys = new ArrayList<>();
        for (JsonNode key : asked.get("keys"))
            keys.add(key.isNull() ? null : ByteBuffer.wrap(data(key)));
        Map<ByteBuffer, ByteBuffer> found = store.get(keys).get(5, TimeUnit.SECONDS);
        ArrayNode answer = JSON.createArrayNode();
        for (ByteBuffer key : keys)
            answer.add(found.get(key) == null ? null : bytes(found.get(key).array()));
        store.stop();
        return answer;
    }

    static ConnectRecord<?> record(JsonNode r) {
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode header : r.path("headers"))
            headers.add(header.get("key").asText(), value(header.get("value")), schema(header.get("schema")));
        String topic = r.path("topic").isNull() ? null : r.path("topic").asText();
        Integer partition = r.path("partition").isNumber() ? r.get("partition").asInt() : null;
        Long timestamp = r.path("timestamp").isNumber() ? r.get("timestamp").asLong() : null;
        Schema keySchema = schema(r.get("key_schema"));
        Schema valueSchema = schema(r.get("value_schema"));
        if (r.path("offset").isNumber())
            return new SinkRecord(topic, partition == null ? 0 : partition, keySchema, value(r.get("key")), valueSchema,
                value(r.get("value")), r.get("offset").asLong(), timestamp, TimestampType.CREATE_TIME, headers);
        return new SourceRecord(Map.of(), Map.of(), topic, partition, keySchema, value(r.get("key")), valueSchema,
            value(r.get("value")), timestamp, headers);
    }

    static JsonNode record(ConnectRecord<?> r) {
        if (r == null)
            return null;
        ObjectNode node = JSON.createObjectNode();
        node.put("topic", r.topic());
        node.put("partition", r.kafkaPartition());
        node.put("timestamp", r.timestamp());
        if (r instanceof SinkRecord)
            node.put("offset", ((SinkRecord) r).kafkaOffset());
        node.set("key_schema", schema(r.keySchema()));
        node.set("key", value(r.key()));
        node.set("value_schema", schema(r.valueSchema()));
        node.set("value", value(r.value()));
        ArrayNode headers = node.putArray("headers");
        for (Header header : r.headers()) {
            ObjectNode one = headers.addObject();
            one.put("key", header.key());
            one.set("schema", schema(header.schema()));
            one.set("value", value(header.value()));
        }
        return node;
    }

    static JsonNode pair(SchemaAndValue found) {
        ObjectNode node = JSON.createObjectNode();
        node.set("schema", found == null ? null : schema(found.schema()));
        node.set("value", found == null ? null : value(found.value()));
        return node;
    }

    static JsonNode bytes(byte[] data) {
        return data == null ? JSON.nullNode() : JSON.getNodeFactory().textNode(Base64.getEncoder().encodeToString(data));
    }

    static byte[] data(JsonNode node) {
        return node == null || node.isNull() ? null : Base64.getDecoder().decode(node.asText());
    }

    static Schema schema(JsonNode s) {
        if (s == null || s.isNull())
            return null;
        Schema.Type type = Schema.Type.valueOf(s.get("type").asText());
        SchemaBuilder builder;
        if (type == Schema.Type.ARRAY)
            builder = SchemaBuilder.array(schema(s.get("value")));
        else if (type == Schema.Type.MAP)
            builder = SchemaBuilder.map(schema(s.get("key")), schema(s.get("value")));
        else
            builder = SchemaBuilder.type(type);
        for (JsonNode field : s.path("fields"))
            builder.field(field.get("name").asText(), schema(field.get("schema")));
        if (s.path("optional").asBoolean())
            builder.optional();
        if (s.hasNonNull("name"))
            builder.name(s.get("name").asText());
        if (s.hasNonNull("version"))
            builder.version(s.get("version").asInt());
        if (s.hasNonNull("doc"))
            builder.doc(s.get("doc").asText());
        if (s.hasNonNull("parameters"))
            for (Map.Entry<String, JsonNode> each : s.get("parameters").properties())
                builder.parameter(each.getKey(), each.getValue().asText());
        if (s.hasNonNull("default"))
            builder.defaultValue(value(s.get("default")));
        return builder.build();
    }

    static JsonNode schema(Schema s) {
        if (s == null)
            return null;
        ObjectNode node = JSON.createObjectNode();
        node.put("type", s.type().name());
        if (s.isOptional())
            node.put("optional", true);
        if (s.name() != null)
            node.put("name", s.name());
        if (s.version() != null)
            node.put("version", s.version());
        if (s.doc() != null)
            node.put("doc", s.doc());
        if (s.parameters() != null)
            node.set("parameters", JSON.valueToTree(new TreeMap<>(s.parameters())));
        if (s.defaultValue() != null)
            node.set("default", value(s.defaultValue()));
        if (s.type() == Schema.Type.MAP)
            node.set("key", schema(s.keySchema()));
        if (s.type() == Schema.Type.MAP || s.type() == Schema.Type.ARRAY)
            node.set("value", schema(s.valueSchema()));
        if (s.type() == Schema.Type.STRUCT) {
            ArrayNode fields = node.putArray("fields");
            for (Field field : s.fields()) {
                ObjectNode one = fields.addObject();
                one.put("name", field.name());
                one.set("schema", schema(field.schema()));
            }
        }
        return node;
    }

    static Object value(JsonNode node) {
        if (node == null || node.isNull())
            return null;
        JsonNode v = node.get("v");
        switch (node.get("t").asText()) {
            case "int8": return (byte) v.asInt();
            case "int16": return (short) v.asInt();
            case "int32": return v.asInt();
            case "int64": return v.asLong();
            case "float32": return Float.parseFloat(v.asText());
            case "float64": return Double.parseDouble(v.asText());
            case "boolean": return v.asBoolean();
            case "string": return v.asText();
            case "bytes": return Base64.getDecoder().decode(v.asText());
            case "decimal": return new BigDecimal(v.asText());
            case "date": return new Date(v.asLong());
            case "list": {
                List<Object> list = new ArrayList<>();
                for (JsonNode each : v)
                    list.add(value(each));
                return list;
            }
            case "map": {
                Map<Object, Object> map = new LinkedHashMap<>();
                for (JsonNode each : v)
                    map.put(value(each.get(0)), value(each.get(1)));
                return map;
            }
            case "struct": {
                Schema schema = schema(node.get("schema"));
                Struct struct = new Struct(schema);
                for (int i = 0; i < schema.fields().size(); i++)
                    if (!v.get(i).isNull())
                        struct.put(schema.fields().get(i), value(v.get(i)));
                return struct;
            }
            default: throw new IllegalStateException(node.toString());
        }
    }

    static JsonNode value(Object value) {
        if (value == null)
            return JSON.nullNode();
        ObjectNode node = JSON.createObjectNode();
        if (value instanceof Byte) node.put("t", "int8").put("v", (Byte) value);
        else if (value instanceof Short) node.put("t", "int16").put("v", (Short) value);
        else if (value instanceof Integer) node.put("t", "int32").put("v", (Integer) value);
        else if (value instanceof Long) node.put("t", "int64").put("v", (Long) value);
        else if (value instanceof Float) node.put("t", "float32").put("v", value.toString());
        else if (value instanceof Double) node.put("t", "float64").put("v", value.toString());
        else if (value instanceof Boolean) node.put("t", "boolean").put("v", (Boolean) value);
        else if (value instanceof String) node.put("t", "string").put("v", (String) value);
        else if (value instanceof byte[]) node.put("t", "bytes").put("v", Base64.getEncoder().encodeToString((byte[]) value));
        else if (value instanceof BigDecimal) node.put("t", "decimal").put("v", value.toString());
        else if (value instanceof Date) node.put("t", "date").put("v", ((Date) value).getTime());
        else if (value instanceof List) {
            ArrayNode list = node.put("t", "list").putArray("v");
            for (Object each : (List<?>) value)
                list.add(value(each));
        } else if (value instanceof Map) {
            ArrayNode map = node.put("t", "map").putArray("v");
            for (Map.Entry<?, ?> each : ((Map<?, ?>) value).entrySet())
                map.addArray().add(value(each.getKey())).add(value(each.getValue()));
        } else if (value instanceof Struct) {
            Struct struct = (Struct) value;
            node.put("t", "struct").set("schema", schema(struct.schema()));
            ArrayNode fields = node.putArray("v");
            for (Field field : struct.schema().fields())
                fields.add(value(struct.getWithoutDefault(field.name())));
        } else node.put("t", value.getClass().getName());
        return node;
    }
}
