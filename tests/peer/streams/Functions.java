import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;

/** The named functions of a case. `functions.py` beside this file has the same, and each name means one thing. */
final class Functions {
    private Functions() {
    }

    static boolean test(String name, Object key, Object value) {
        switch (name) {
            case "always": return true;
            case "never": return false;
            case "even": return value != null && (Long) value % 2 == 0;
            case "positive": return value != null && (Long) value > 0;
            case "below_5": return value != null && (Long) value < 5;
            case "key_is_a": return "a".equals(key);
            case "key_not_b": return !"b".equals(key);
            case "value_set": return value != null;
            case "starts_x": return text(value).startsWith("x");
            default: throw new IllegalArgumentException("no predicate " + name);
        }
    }

    /** What becomes of one record: a value, a key, a pair or a list, as the step wants it. */
    static Object map(String name, Object key, Object value) {
        switch (name) {
            case "same": return value;
            case "null": return null;
            case "double": return value == null ? null : 2 * (Long) value;
            case "mod3": return value == null ? null : (Long) value % 3;
            case "text": return text(value);
            case "upper": return value == null ? null : ((String) value).toUpperCase();
            case "length": return value == null ? null : (long) ((String) value).length();
            case "parse": return value == null ? null : Long.valueOf((String) value);
            case "with_key": return text(key) + ":" + text(value);
            case "drop_odd": return value == null || (Long) value % 2 != 0 ? null : value;
            case "first": return part(value, 0);
            case "rest": return part(value, 1);
            case "key": return key;
            case "key_prefix": return key == null ? null : ((String) key).substring(0, 1);
            case "key_x": return key + "x";
            case "mod3_text": return value == null ? null : text((Long) value % 3);
            case "null_if_odd": return value == null || (Long) value % 2 != 0 ? null : key;
            case "window_text": return windowText((Windowed<?>) key);
            case "window_key": return ((Windowed<?>) key).key();
            case "swap_text": return new KeyValue<>(text(value), key);
            case "mod3_pair": return new KeyValue<>(text((Long) value % 3), value);
            case "prefix_pair": return new KeyValue<>(((String) key).substring(0, 1), value);
            case "first_rest": return new KeyValue<>(part(value, 0), part(value, 1));
            case "first_same": return new KeyValue<>(part(value, 0), value);
            case "window_pair": return new KeyValue<>(((Windowed<?>) key).key(), value);
            case "words": return value == null ? List.of() : Arrays.asList(((String) value).split(" "));
            case "twice": return Arrays.asList(value, value);
            case "with_bang": return Arrays.asList(new KeyValue<>(key, value), new KeyValue<>(key + "!", value));
            default: throw new IllegalArgumentException("no mapper " + name);
        }
    }

    static Object join(String name, Object key, Object left, Object right) {
        switch (name) {
            case "pair": return text(left) + "+" + text(right);
            case "pair_key": return text(key) + ":" + text(left) + "+" + text(right);
            case "sum": return number(left) + number(right);
            case "right": return right;
            case "drop_x": return "x".equals(left) || "x".equals(right) ? null : text(left) + "+" + text(right);
            default: throw new IllegalArgumentException("no joiner " + name);
        }
    }

    static Object initial(String name) {
        switch (name) {
            case "zero": return 0L;
            case "empty": return "";
            case "none": return null;
            default: throw new IllegalArgumentException("no initializer " + name);
        }
    }

    static Object aggregate(String name, Object key, Object value, Object aggregate) {
        switch (name) {
            case "sum": return number(aggregate) + number(value);
            case "minus": return number(aggregate) - number(value);
            case "count": return number(aggregate) + 1;
            case "concat": return aggregate + text(value);
            case "concat_minus": return aggregate + "-" + text(value);
            case "concat_plus": return aggregate + "+" + text(value);
            case "concat_length": return aggregate + text(((String) value).length());
            case "clear_at_3": return Objects.equals(value, 3L) ? null : number(aggregate) + number(value);
            default: throw new IllegalArgumentException("no aggregator " + name);
        }
    }

    static Object reduce(String name, Object one, Object other) {
        switch (name) {
            case "sum": return (Long) one + (Long) other;
            case "minus": return (Long) one - (Long) other;
            case "max": return Math.max((Long) one, (Long) other);
            case "min": return Math.min((Long) one, (Long) other);
            case "concat": return one + text(other);
            case "concat_minus": return one + "-" + text(other);
            case "last": return other;
            case "first": return one;
            case "null_if_same": return one.equals(other) ? null : other;
            default: throw new IllegalArgumentException("no reducer " + name);
        }
    }

    static Object merge(String name, Object key, Object one, Object other) {
        switch (name) {
            case "sum": return number(one) + number(other);
            case "concat": return one + "&" + other;
            default: throw new IllegalArgumentException("no merger " + name);
        }
    }

    static String text(Object value) {
        return String.valueOf(value);
    }

    static String windowText(Windowed<?> windowed) {
        return windowed.key() + "@" + windowed.window().start() + "/" + windowed.window().end();
    }

    private static long number(Object value) {
        return value == null ? 0 : (Long) value;
    }

    /** The text before or after the first bar; null where there is none of it. */
    private static String part(Object value, int which) {
        if (value == null) {
            return null;
        }
        List<String> parts = new ArrayList<>(Arrays.asList(((String) value).split("\\|", 2)));
        return parts.size() <= which || parts.get(which).isEmpty() ? null : parts.get(which);
    }
}
