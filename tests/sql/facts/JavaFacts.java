import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;
import java.net.URI;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.time.ZoneId;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeFormatterBuilder;
import java.time.temporal.ChronoField;
import java.time.temporal.TemporalAccessor;
import java.time.temporal.TemporalQueries;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;

/** Answers questions, one a line: a JSON array of texts. An answer is a JSON text, or null where Java throws. */
public class JavaFacts {
  public static void main(String[] arguments) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, true, "UTF-8");
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      List<String> question = texts(line);
      String answer;
      try {
        answer = answer(question);
      } catch (Exception refused) {
        answer = null;
      }
      out.println(answer == null ? "null" : quoted(answer));
    }
  }

  static String answer(List<String> q) throws Exception {
    switch (q.get(0)) {
      case "format timestamp":
        return Instant.ofEpochMilli(Long.parseLong(q.get(1))).atZone(ZoneId.of(q.get(3)))
            .format(DateTimeFormatter.ofPattern(q.get(2), Locale.US));
      case "format date":
        return LocalDate.ofEpochDay(Long.parseLong(q.get(1))).format(DateTimeFormatter.ofPattern(q.get(2), Locale.US));
      case "format time":
        return LocalTime.ofNanoOfDay(Long.parseLong(q.get(1)) * 1000000)
            .format(DateTimeFormatter.ofPattern(q.get(2), Locale.US));
      case "parse timestamp":
        return "" + moment(parsed(q.get(2), q.get(1)), ZoneId.of(q.get(3)));
      case "parse time": {
        TemporalAccessor found = parsed(q.get(2), q.get(1));
        for (ChronoField field : ChronoField.values()) {
          if (field.isDateBased() && found.isSupported(field)) {
            return null;
          }
        }
        return "" + LocalTime.from(found).toNanoOfDay() / 1000000;
      }
      case "parse date":
        return "" + LocalDate.from(parsed(q.get(2), q.get(1))).toEpochDay();
      case "uri": {
        URI uri = new URI(q.get(1));
        return uri.getScheme() + "|" + uri.getHost() + "|" + uri.getPort() + "|" + uri.getPath() + "|" + uri.getQuery()
            + "|" + uri.getFragment();
      }
      case "url encode":
        return URLEncoder.encode(q.get(1), "UTF-8");
      case "url decode":
        return URLDecoder.decode(q.get(1), "UTF-8");
      case "double text":
        return Double.toString(Double.parseDouble(q.get(1)));
      case "math":
        return "" + math(q.get(1), Double.parseDouble(q.get(2)), Double.parseDouble(q.get(3)));
      case "abs int":
        return "" + Math.abs(Integer.parseInt(q.get(1)));
      case "abs long":
        return "" + Math.abs(Long.parseLong(q.get(1)));
      case "round":
        return "" + Math.round(Double.parseDouble(q.get(1)));
      case "round decimal": {
        BigDecimal value = new BigDecimal(q.get(1));
        return value.setScale(Integer.parseInt(q.get(2)), value.signum() > 0 ? RoundingMode.HALF_UP : RoundingMode.HALF_DOWN)
            .setScale(value.scale(), RoundingMode.UNNECESSARY).toPlainString();
      }
      case "decimal of double": {
        int precision = Integer.parseInt(q.get(2));
        int scale = Integer.parseInt(q.get(3));
        BigDecimal value = new BigDecimal(Double.parseDouble(q.get(1)), new MathContext(precision));
        if (value.abs().compareTo(BigDecimal.TEN.pow(precision - scale)) >= 0) {
          return null;
        }
        return value.setScale(scale, RoundingMode.HALF_UP).toPlainString();
      }
      case "upper":
        return q.get(1).toUpperCase();
      case "lower":
        return q.get(1).toLowerCase();
      case "trim":
        return q.get(1).trim();
      case "base64":
        return hex(Base64.getDecoder().decode(q.get(1)));
      case "parse int":
        return "" + Integer.parseInt(q.get(1));
      case "parse double":
        return "" + Double.parseDouble(q.get(1));
      case "hash order": {
        HashMap<String, String> map = q.get(1).isEmpty() ? new HashMap<>() : new HashMap<>(Integer.parseInt(q.get(1)));
        for (String key : q.subList(2, q.size())) {
          map.put(key, "");
        }
        return String.join(",", map.keySet());
      }
      default:
        throw new IllegalArgumentException("unknown question " + q.get(0));
    }
  }

  static double math(String name, double x, double y) {
    switch (name) {
      case "SQRT": return Math.sqrt(x);
      case "CBRT": return Math.cbrt(x);
      case "EXP": return Math.exp(x);
      case "LN": return Math.log(x);
      case "SIN": return Math.sin(x);
      case "COS": return Math.cos(x);
      case "TAN": return Math.tan(x);
      case "COT": return 1.0 / Math.tan(x);
      case "ASIN": return Math.asin(x);
      case "ACOS": return Math.acos(x);
      case "ATAN": return Math.atan(x);
      case "SINH": return Math.sinh(x);
      case "COSH": return Math.cosh(x);
      case "TANH": return Math.tanh(x);
      case "DEGREES": return Math.toDegrees(x);
      case "RADIANS": return Math.toRadians(x);
      case "ATAN2": return Math.atan2(x, y);
      case "POWER": return Math.pow(x, y);
      default: throw new IllegalArgumentException(name);
    }
  }

  static TemporalAccessor parsed(String pattern, String text) {
    return new DateTimeFormatterBuilder().parseCaseInsensitive().appendPattern(pattern).toFormatter(Locale.US).parse(text);
  }

  /** The moment of what was parsed; every field that it has is set upon the first moment of 1970. */
  static long moment(TemporalAccessor parsed, ZoneId zone) {
    ZoneId own = parsed.query(TemporalQueries.zone());
    ZonedDateTime at = ZonedDateTime.of(1970, 1, 1, 0, 0, 0, 0, own == null ? zone : own);
    for (ChronoField field : ChronoField.values()) {
      if (!parsed.isSupported(field)) {
        continue;
      }
      if (field == ChronoField.DAY_OF_YEAR && parsed.getLong(field) == 366) {
        at = at.withYear(parsed.get(ChronoField.YEAR));
      }
      at = at.with(field, parsed.getLong(field));
    }
    return at.toInstant().toEpochMilli();
  }

  static String hex(byte[] bytes) {
    StringBuilder text = new StringBuilder();
    for (byte each : bytes) {
      text.append(String.format("%02x", each));
    }
    return text.toString();
  }

  static List<String> texts(String line) {
    List<String> found = new ArrayList<>();
    int at = 1;
    while (line.charAt(at) != ']') {
      if (line.charAt(at) != '"') {
        at++;
        continue;
      }
      StringBuilder text = new StringBuilder();
      for (at++; line.charAt(at) != '"'; at++) {
        char each = line.charAt(at);
        if (each != '\\') {
          text.append(each);
          continue;
        }
        each = line.charAt(++at);
        if (each == 'u') {
          text.append((char) Integer.parseInt(line.substring(at + 1, at + 5), 16));
          at += 4;
        } else {
          text.append(each == 'n' ? '\n' : each == 't' ? '\t' : each == 'r' ? '\r' : each == 'b' ? '\b' : each == 'f' ? '\f' : each);
        }
      }
      found.add(text.toString());
      at++;
    }
    return found;
  }

  static String quoted(String text) {
    StringBuilder made = new StringBuilder("\"");
    for (char each : text.toCharArray()) {
      if (each == '"' || each == '\\') {
        made.append('\\').append(each);
      } else if (each < 32 || each > 126) {
        made.append(String.format("\\u%04x", (int) each));
      } else {
        made.append(each);
      }
    }
    return made.append('"').toString();
  }
}
