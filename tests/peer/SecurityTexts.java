import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** What Kafka and Java make of names, rules and JAAS texts: a question in JSON per line, {"found": …} or {"error": …} back. */
public class SecurityTexts {
    public static void main(String[] ignored) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode answer = json.createObjectNode();
            try {
                answer.set("found", json.valueToTree(found(json.readTree(line))));
            } catch (Exception refused) {
                answer.put("error", String.valueOf(refused.getMessage()));
            }
            System.out.println(json.writeValueAsString(answer));
            System.out.flush();
        }
    }

    private static Object found(JsonNode asked) throws Exception {
        String text = asked.get("text").asText();
        switch (asked.get("what").asText()) {
            case "name":
                return new X500Principal(Base64.getDecoder().decode(text)).getName();
            case "ssl":
                return SslPrincipalMapper.fromRules(asked.get("rules").asText()).getName(text);
            case "kerberos":
                List<String> rules = new ArrayList<>();
                asked.get("rules").forEach(each -> rules.add(each.asText()));
                return KerberosShortNamer.fromUnparsedRules("REALM", rules).shortName(KerberosName.parse(text));
            default:
                List<Object> entries = new ArrayList<>();
                Map<String, Object> settings = Map.of("sasl.jaas.config", new Password(text));
                for (AppConfigurationEntry each : JaasContext.loadClientContext(settings).configurationEntries()) {
                    String flag = each.getControlFlag().toString().replace("LoginModuleControlFlag: ", "");
                    entries.add(List.of(each.getLoginModuleName(), flag, new TreeMap<>(each.getOptions())));
                }
                return entries;
        }
    }
}
