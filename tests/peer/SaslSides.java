import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.NameCallback;
import javax.security.auth.callback.PasswordCallback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.sasl.Sasl;
import javax.security.sasl.SaslClient;
import javax.security.sasl.SaslServer;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.auth.SaslExtensions;
import org.apache.kafka.common.security.auth.SaslExtensionsCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerSaslClient;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerSaslServer;
import org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler;
import org.apache.kafka.common.security.plain.PlainAuthenticateCallback;
import org.apache.kafka.common.security.plain.internals.PlainSaslServer;
import org.apache.kafka.common.security.scram.ScramCredential;
import org.apache.kafka.common.security.scram.ScramCredentialCallback;
import org.apache.kafka.common.security.scram.ScramExtensionsCallback;
import org.apache.kafka.common.security.scram.internals.ScramFormatter;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.scram.internals.ScramSaslClient;
import org.apache.kafka.common.security.scram.internals.ScramSaslServer;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCredentialCallback;

/**
 * Either side of Kafka's own SASL exchanges, a step per line of JSON.
 *
 * {"side": "client" | "server", "mechanism", "user", "password", "by_token"} begins an exchange; {"token": base64} goes on.
 * The answer has "token" (base64 or null), "complete", "user", "error". For OAUTHBEARER the password is the token.
 */
public class SaslSides {
    private static SaslClient client;
    private static SaslServer server;

    public static void main(String[] ignored) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode answer = json.createObjectNode();
            try {
                step(json.readTree(line), answer);
            } catch (Exception refused) {
                answer.put("error", String.valueOf(refused.getMessage()));
            }
            System.out.println(json.writeValueAsString(answer));
            System.out.flush();
        }
    }

    private static void step(JsonNode asked, ObjectNode answer) throws Exception {
        byte[] token = asked.has("token") ? Base64.getDecoder().decode(asked.get("token").asText()) : new byte[0];
        byte[] out = null;
        if (asked.has("side")) {
            begin(asked);
            if (client != null) {
                out = client.evaluateChallenge(new byte[0]);
            }
        } else if (client != null) {
            out = client.evaluateChallenge(token);
        } else {
            out = server.evaluateResponse(token);
        }
        answer.put("token", out == null ? null : Base64.getEncoder().encodeToString(out));
        answer.put("complete", client != null ? client.isComplete() : server.isComplete());
        if (server != null && server.isComplete()) {
            answer.put("user", server.getAuthorizationID());
        }
    }

    private static void begin(JsonNode asked) throws Exception {
        client = null;
        server = null;
        String mechanism = asked.get("mechanism").asText();
        Known known = new Known(
            mechanism, asked.get("user").asText(), asked.get("password").asText(), asked.get("by_token").asBoolean());
        if (asked.get("side").asText().equals("client")) {
            client = switch (mechanism) {
                case "PLAIN" -> Sasl.createSaslClient(new String[] {mechanism}, null, "kafka", "host", Map.of(), known);
                case "OAUTHBEARER" -> new OAuthBearerSaslClient(known);
                default -> new ScramSaslClient(ScramMechanism.forMechanismName(mechanism), known);
            };
            return;
        }
        server = switch (mechanism) {
            case "PLAIN" -> new PlainSaslServer(known);
            case "OAUTHBEARER" -> new OAuthBearerSaslServer(unsecured());
            default -> new ScramSaslServer(ScramMechanism.forMechanismName(mechanism), Map.of(), known);
        };
    }

    private static AuthenticateCallbackHandler unsecured() {
        OAuthBearerUnsecuredValidatorCallbackHandler handler = new OAuthBearerUnsecuredValidatorCallbackHandler();
        AppConfigurationEntry.LoginModuleControlFlag required = AppConfigurationEntry.LoginModuleControlFlag.REQUIRED;
        String module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule";
        handler.configure(Map.of(), "OAUTHBEARER", List.of(new AppConfigurationEntry(module, required, Map.of())));
        return handler;
    }

    /** One user, or one delegation token, whom both sides know. */
    private record Known(String mechanism, String user, String password, boolean byToken)
            implements AuthenticateCallbackHandler {
        @Override
        public void handle(Callback[] callbacks) throws UnsupportedCallbackException {
            boolean named = true;
            for (Callback each : callbacks) {
                if (each instanceof NameCallback name) {
                    named = name.getDefaultName() == null || name.getDefaultName().equals(user);
                    name.setName(user);
                } else if (each instanceof PasswordCallback given) {
                    given.setPassword(password.toCharArray());
                } else if (each instanceof PlainAuthenticateCallback asked) {
                    asked.authenticated(named && new String(asked.password()).equals(password));
                } else if (each instanceof ScramExtensionsCallback extensions) {
                    extensions.extensions(byToken ? Map.of("tokenauth", "true") : Map.of());
                } else if (each instanceof DelegationTokenCredentialCallback asked) {
                    asked.scramCredential(named && byToken ? credential() : null);
                    asked.tokenOwner("owner-of-" + user);
                    asked.tokenExpiryTimestamp(Long.MAX_VALUE);
                } else if (each instanceof ScramCredentialCallback asked) {
                    asked.scramCredential(named && !byToken ? credential() : null);
                } else if (each instanceof OAuthBearerTokenCallback asked) {
                    asked.token(new Given(password, user));
                } else if (each instanceof SaslExtensionsCallback extensions) {
                    extensions.extensions(new SaslExtensions(Map.of("logicalCluster", "lkc-1")));
                } else {
                    throw new UnsupportedCallbackException(each);
                }
            }
        }

        private ScramCredential credential() {
            try {
                return new ScramFormatter(ScramMechanism.forMechanismName(mechanism)).generateCredential(password, 4096);
            } catch (java.security.NoSuchAlgorithmException impossible) {
                throw new IllegalStateException(impossible);
            }
        }

        @Override public void configure(Map<String, ?> settings, String mechanism, List<AppConfigurationEntry> entries) { }
        @Override public void close() { }
    }

    private record Given(String value, String principalName) implements OAuthBearerToken {
        @Override public java.util.Set<String> scope() { return java.util.Set.of(); }
        @Override public long lifetimeMs() { return Long.MAX_VALUE; }
        @Override public Long startTimeMs() { return null; }
    }
}
