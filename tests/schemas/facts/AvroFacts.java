import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;

/** Says what Apache Avro's own classes make of schemas and of pairs of them: JSON in, JSON out. */
public class AvroFacts {
  public static void main(String[] arguments) throws Exception {
    ObjectMapper mapper = new ObjectMapper();
    JsonNode asked = mapper.readTree(System.in);
    ObjectNode answer = mapper.createObjectNode();
    ArrayNode texts = answer.putArray("texts");
    for (JsonNode text : asked.get("texts")) {
      ObjectNode fact = texts.addObject().put("text", text.textValue());
      try {
        fact.put("canonical", new Schema.Parser().parse(text.textValue()).toString());
      } catch (Exception error) {
        fact.putNull("canonical");
      }
    }
    ArrayNode pairs = answer.putArray("pairs");
    for (JsonNode pair : asked.get("pairs")) {
      Schema reader;
      Schema writer;
      try {
        reader = new Schema.Parser().parse(pair.get(0).textValue());
        writer = new Schema.Parser().parse(pair.get(1).textValue());
      } catch (Exception error) {
        continue;
      }
      ObjectNode fact = pairs.addObject();
      fact.put("reader", pair.get(0).textValue()).put("writer", pair.get(1).textValue());
      ArrayNode found = fact.putArray("incompatibilities");
      for (SchemaCompatibility.Incompatibility each :
          SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getResult().getIncompatibilities()) {
        found.addArray().add(each.getType().name()).add(each.getLocation()).add(each.getMessage());
      }
    }
    System.out.write(mapper.writeValueAsBytes(answer));
    System.out.flush();
  }
}
