import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;

/**
 * Answers how Java writes numbers and in which order it keeps maps: a question and an answer a line.
 *
 * `d BITS` and `f BITS` are a double and a float by their bits, `p TEXT` asks for the bits of a double's text and `q TEXT`
 * for a float's, and `m KEY…` for the order of a map's keys (`s` and base64, `l` and a long, `i`, `b`).
 */
public class JavaTexts {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        StringBuilder all = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            all.append(answer(words)).append('\n');
        }
        System.out.print(all);
    }

    private static String answer(String[] words) {
        switch (words[0]) {
            case "d":
                return Double.toString(Double.longBitsToDouble(Long.parseLong(words[1])));
            case "f":
                return Float.toString(Float.intBitsToFloat(Integer.parseInt(words[1])));
            case "p":
                return Long.toString(Double.doubleToLongBits(Double.parseDouble(words[1])));
            case "q":
                return Integer.toString(Float.floatToIntBits(Float.parseFloat(words[1])));
            default:
                return order(Arrays.copyOfRange(words, 1, words.length));
        }
    }

    private static String order(String[] words) {
        HashMap<Object, String> map = new HashMap<>();
        for (String word : words) {
            map.put(key(word), word);
        }
        return String.join(" ", map.values());
    }

    private static Object key(String word) {
        String rest = word.substring(1);
        switch (word.charAt(0)) {
            case 's':
                return new String(Base64.getDecoder().decode(rest), StandardCharsets.UTF_8);
            case 'l':
                return Long.parseLong(rest);
            case 'i':
                return Integer.parseInt(rest);
            default:
                return Boolean.parseBoolean(rest);
        }
    }
}
