import io.confluent.kafka.schemaregistry.avro.AvroSchema;
import io.confluent.kafka.schemaregistry.client.rest.entities.Metadata;
import io.confluent.kafka.schemaregistry.client.rest.entities.RuleSet;
import io.confluent.kafka.schemaregistry.client.rest.entities.Schema;
import io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.pinot.shaded.com.fasterxml.jackson.core.type.TypeReference;
import org.apache.pinot.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.pinot.shaded.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.pinot.shaded.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.pinot.shaded.com.fasterxml.jackson.databind.node.ObjectNode;

/** Says what Confluent's client library makes of Avro schemas and of pairs of them: JSON in, JSON out. */
public class ConfluentFacts {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  public static void main(String[] arguments) throws Exception {
    JsonNode asked = MAPPER.readTree(System.in);
    ObjectNode answer = MAPPER.createObjectNode();
    ArrayNode schemas = answer.putArray("schemas");
    for (JsonNode each : asked.get("schemas")) {
      schemas.add(schemaFact((ObjectNode) each));
    }
    ArrayNode pairs = answer.putArray("pairs");
    for (JsonNode pair : asked.get("pairs")) {
      ObjectNode fact = pairs.addObject();
      String reader = pair.get(0).textValue();
      String writer = pair.get(1).textValue();
      fact.put("reader", reader).put("writer", writer);
      ArrayNode found = fact.putArray("messages");
      try {
        new AvroSchema(reader).isBackwardCompatible(new AvroSchema(writer)).forEach(found::add);
      } catch (Exception error) {
        pairs.remove(pairs.size() - 1);
      }
    }
    System.out.write(MAPPER.writeValueAsBytes(answer));
    System.out.flush();
  }

  private static ObjectNode schemaFact(ObjectNode asked) throws Exception {
    List<SchemaReference> references =
        asked.has("references")
            ? MAPPER.convertValue(asked.get("references"), new TypeReference<List<SchemaReference>>() {})
            : List.of();
    Map<String, String> resolved = new LinkedHashMap<>();
    if (asked.has("resolved")) {
      asked.get("resolved").fields().forEachRemaining(each -> resolved.put(each.getKey(), each.getValue().textValue()));
    }
    Metadata metadata = asked.has("metadata") ? MAPPER.treeToValue(asked.get("metadata"), Metadata.class) : null;
    RuleSet rules = asked.has("ruleSet") ? MAPPER.treeToValue(asked.get("ruleSet"), RuleSet.class) : null;
    AvroSchema schema;
    try {
      schema = new AvroSchema(asked.get("text").textValue(), references, resolved, metadata, rules, null, true);
      schema.rawSchema();
    } catch (Exception error) {
      return asked.putNull("canonical");
    }
    asked.put("canonical", schema.canonicalString());
    asked.put("resolvedText", schema.formattedString("resolved"));
    asked.put("md5", md5(schema));
    AvroSchema normal = schema.normalize();
    asked.put("normalized", normal.canonicalString());
    ArrayNode names = asked.putArray("normalizedReferences");
    normal.references().forEach(each -> names.add(each.getName()));
    return asked.put("normalizedMd5", md5(normal));
  }

  private static String md5(AvroSchema schema) throws Exception {
    MessageDigest digest = MessageDigest.getInstance("MD5");
    new Schema("any", 1, 1, schema).updateHash(digest);
    return HexFormat.of().formatHex(digest.digest());
  }
}
