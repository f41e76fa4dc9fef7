import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.distributed.ExtendedAssignment;
import org.apache.kafka.connect.runtime.distributed.ExtendedWorkerState;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeAssignor;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol;
import org.apache.kafka.connect.runtime.distributed.WorkerCoordinator.ConnectorsAndTasks;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** Apache Kafka Connect's own division of work and its group metadata: one JSON object in a line, one answer in a line. */
public class GroupOracle {
    static final ObjectMapper JSON = new ObjectMapper();
    static long now;
    static IncrementalCooperativeAssignor assignor;

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode asked = JSON.readTree(line);
            now = asked.path("now").asLong();
            out.println(JSON.writeValueAsString(answer(asked)));
        }
    }

    static JsonNode answer(JsonNode asked) throws Exception {
        switch (asked.get("what").asText()) {
            case "leader":
                Time time = (Time) Proxy.newProxyInstance(Time.class.getClassLoader(), new Class<?>[] {Time.class},
                    (proxy, method, given) -> method.getName().equals("milliseconds") ? (Object) now : null);
                assignor = new IncrementalCooperativeAssignor(new LogContext(), time, asked.get("delay").asInt());
                return JSON.createObjectNode();
            case "divide":
                return divide(asked);
            case "worker":
                return JSON.getNodeFactory().textNode(base64(IncrementalCooperativeConnectProtocol.serializeMetadata(
                    new ExtendedWorkerState(asked.get("url").asText(), asked.get("offset").asLong(), assignment(asked)),
                    asked.get("version").asInt() == 2)));
            case "assignment":
                return JSON.getNodeFactory().textNode(base64(IncrementalCooperativeConnectProtocol.serializeAssignment(
                    assignment(asked), asked.get("version").asInt() == 2)));
            default:
                throw new IllegalArgumentException(asked.toString());
        }
    }

    static String base64(ByteBuffer data) {
        byte[] found = new byte[data.remaining()];
        data.get(found);
        return Base64.getEncoder().encodeToString(found);
    }

    static ExtendedAssignment assignment(JsonNode asked) {
        if (asked.path("given").isMissingNode()) {
            return null;
        }
        ConnectorsAndTasks given = work(asked.get("given"));
        ConnectorsAndTasks revoked = work(asked.get("revoked"));
        return new ExtendedAssignment((short) asked.get("version").asInt(), (short) asked.get("error").asInt(),
            "leader", "http://leader:8083", asked.get("offset").asLong(), given.connectors(), given.tasks(),
            revoked.connectors(), revoked.tasks(), asked.get("delay").asInt());
    }

    static ConnectorsAndTasks work(JsonNode asked) {
        List<String> connectors = new ArrayList<>();
        List<ConnectorTaskId> tasks = new ArrayList<>();
        asked.get(0).forEach(each -> connectors.add(each.asText()));
        asked.get(1).forEach(each -> tasks.add(new ConnectorTaskId(each.get(0).asText(), each.get(1).asInt())));
        return new ConnectorsAndTasks.Builder().with(connectors, tasks).build();
    }

    static JsonNode divide(JsonNode asked) throws Exception {
        Map<String, Integer> counts = new HashMap<>();
        Map<String, Map<String, String>> configs = new HashMap<>();
        Map<ConnectorTaskId, Map<String, String>> tasks = new HashMap<>();
        asked.get("configured").properties().forEach(each -> {
            counts.put(each.getKey(), each.getValue().asInt());
            configs.put(each.getKey(), Map.of());
            for (int i = 0; i < each.getValue().asInt(); i++) {
                tasks.put(new ConnectorTaskId(each.getKey(), i), Map.of());
            }
        });
        ClusterConfigState state = new ClusterConfigState(1, null, counts, configs, Map.of(), tasks, Map.of(), Map.of(),
            Map.of(), Set.of(), Set.of());
        Map<String, ConnectorsAndTasks> members = new HashMap<>();
        asked.get("members").properties().forEach(each -> members.put(each.getKey(), work(each.getValue())));
        Method divide = null;
        for (Method each : IncrementalCooperativeAssignor.class.getDeclaredMethods()) {
            if (each.getName().equals("performTaskAssignment") && each.getParameterTypes()[0] == ClusterConfigState.class) {
                divide = each;
            }
        }
        divide.setAccessible(true);
        Object found = divide.invoke(assignor, state, asked.get("last").asInt(), asked.get("generation").asInt(), members);
        ObjectNode answer = JSON.createObjectNode();
        for (String name : new String[] {"newlyAssigned", "newlyRevoked", "allAssigned"}) {
            answer.set(name, works(members.keySet(), value(found, name + "Connectors"), value(found, name + "Tasks")));
        }
        answer.put("delay", ((Number) value(assignor, "delay")).intValue());
        return answer;
    }

    static JsonNode works(Collection<String> members, Object connectors, Object tasks) {
        ObjectNode answer = JSON.createObjectNode();
        for (String member : new TreeSet<>(members)) {
            ArrayNode work = answer.putArray(member);
            ArrayNode first = work.addArray();
            ArrayNode second = work.addArray();
            ((Map<String, Collection<String>>) connectors).getOrDefault(member, List.of()).forEach(first::add);
            for (ConnectorTaskId task : ((Map<String, Collection<ConnectorTaskId>>) tasks).getOrDefault(member, List.of())) {
                second.addArray().add(task.connector()).add(task.task());
            }
        }
        return answer;
    }

    static Object value(Object of, String name) throws Exception {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(of);
    }
}
