import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Kafka's own authorizer, asked in JSON: a line of entries and questions in, a line of answers out.
 *
 * An entry is [type, name, pattern, principal, host, operation, permission], codes as numbers; a question is
 * [principal, host, operation, type, name], or without the name: is it allowed on some resource of the type?
 * A filter has an entry's fields, null where it does not care; its answer is the entries' ids.
 */
public class AuthorizerAnswers {
    private record Asked(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        @Override public String listenerName() { return "PLAINTEXT"; }
        @Override public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        @Override public int requestType() { return 0; }
        @Override public int requestVersion() { return 0; }
        @Override public String clientId() { return ""; }
        @Override public int correlationId() { return 0; }
    }

    public static void main(String[] ignored) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode world = json.readTree(line);
            ObjectNode answer = json.createObjectNode();
            StandardAuthorizer authorizer = authorizer(world);
            ArrayNode allowed = answer.putArray("allowed");
            for (JsonNode question : world.get("questions")) {
                allowed.add(ask(authorizer, question) == AuthorizationResult.ALLOWED);
            }
            ArrayNode found = answer.putArray("found");
            for (JsonNode filter : world.get("filters")) {
                ArrayNode texts = found.addArray();
                for (AclBinding binding : authorizer.acls(filter(filter))) {
                    texts.add(binding.pattern() + " " + binding.entry());
                }
            }
            System.out.println(json.writeValueAsString(answer));
            System.out.flush();
        }
    }

    private static StandardAuthorizer authorizer(JsonNode world) {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        Map<String, String> settings = new HashMap<>();
        settings.put("node.id", "1");
        settings.put("super.users", world.get("super_users").asText());
        settings.put("allow.everyone.if.no.acl.found", world.get("allow_everyone").asText());
        authorizer.configure(settings);
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.completeInitialLoad();
        long id = 1;
        for (JsonNode acl : world.get("acls")) {
            authorizer.addAcl(new Uuid(7, id++), new StandardAcl(
                ResourceType.fromCode((byte) acl.get(0).asInt()), acl.get(1).asText(),
                PatternType.fromCode((byte) acl.get(2).asInt()), acl.get(3).asText(), acl.get(4).asText(),
                AclOperation.fromCode((byte) acl.get(5).asInt()), AclPermissionType.fromCode((byte) acl.get(6).asInt())));
        }
        for (JsonNode removed : world.get("removed")) {
            authorizer.removeAcl(new Uuid(7, removed.asInt() + 1));
        }
        return authorizer;
    }

    private static AuthorizationResult ask(StandardAuthorizer authorizer, JsonNode question) throws Exception {
        Asked asked = new Asked(
            SecurityUtils.parseKafkaPrincipal(question.get(0).asText()), InetAddress.getByName(question.get(1).asText()));
        AclOperation operation = AclOperation.fromCode((byte) question.get(2).asInt());
        ResourceType type = ResourceType.fromCode((byte) question.get(3).asInt());
        if (question.size() < 5) {
            return authorizer.authorizeByResourceType(asked, operation, type);
        }
        ResourcePattern pattern = new ResourcePattern(type, question.get(4).asText(), PatternType.LITERAL);
        return authorizer.authorize(asked, List.of(new Action(operation, pattern, 1, false, false))).get(0);
    }

    private static AclBindingFilter filter(JsonNode filter) {
        return new AclBindingFilter(
            new ResourcePatternFilter(ResourceType.fromCode((byte) filter.get(0).asInt()),
                filter.get(1).isNull() ? null : filter.get(1).asText(), PatternType.fromCode((byte) filter.get(2).asInt())),
            new AccessControlEntryFilter(
                filter.get(3).isNull() ? null : filter.get(3).asText(),
                filter.get(4).isNull() ? null : filter.get(4).asText(),
                AclOperation.fromCode((byte) filter.get(5).asInt()), AclPermissionType.fromCode((byte) filter.get(6).asInt())));
    }
}
