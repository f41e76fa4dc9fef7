import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of Kafka's tools one after another in one JVM, since starting one costs more than most commands.
 *
 * One command per line of standard input: the class, then its arguments, each in base64, with spaces between.
 * One answer per line: exit code, standard output and standard error, the latter two in base64.
 */
public class ToolRunner {
    /** Unwinds a tool that leaves; tools that catch everything may leave twice, and the first time counts. */
    private static final class Left extends Error {
        Left() {
            super(null, null, false, false);
        }
    }

    /** Stops what would end this JVM: the library behind the tools with subcommands calls System.exit itself. */
    @SuppressWarnings("removal")
    private static final class ExitsOnlyByKafka extends SecurityManager {
        @Override
        public void checkExit(int code) {
            leave(code);
        }

        @Override
        public void checkPermission(java.security.Permission permission) {
        }
    }

    @SuppressWarnings("removal")
    private static final class EverythingIsAllowed extends java.security.Policy {
        @Override
        public boolean implies(java.security.ProtectionDomain domain, java.security.Permission permission) {
            return true;
        }
    }

    private static ByteArrayOutputStream out;
    private static ByteArrayOutputStream err;
    private static String answer;

    @SuppressWarnings("removal")
    public static void main(String[] ignored) throws Exception {
        Exit.setExitProcedure((code, message) -> leave(code));
        java.security.Policy.setPolicy(new EverythingIsAllowed());
        System.setSecurityManager(new ExitsOnlyByKafka());
        Exit.setHaltProcedure((code, message) -> leave(code));
        PrintStream answers = System.out;
        PrintStream realErr = System.err;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = Arrays.stream(line.split(" ")).map(ToolRunner::decoded).toArray(String[]::new);
            answer = null;
            out = new ByteArrayOutputStream();
            err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, "UTF-8"));
            System.setErr(new PrintStream(err, true, "UTF-8"));
            System.setIn(new ByteArrayInputStream(new byte[0]));
            ended(run(words[0], Arrays.copyOfRange(words, 1, words.length)));
            System.setErr(realErr);
            answers.println(answer);
            answers.flush();
        }
    }

    private static int run(String tool, String[] args) {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) args);
            return 0;
        } catch (java.lang.reflect.InvocationTargetException wrapped) {
            if (answer == null) {
                wrapped.getCause().printStackTrace();
            }
            return 1;
        } catch (ReflectiveOperationException missing) {
            missing.printStackTrace();
            return 1;
        }
    }

    private static void leave(int code) {
        ended(code);
        throw new Left();
    }

    private static void ended(int code) {
        if (answer == null) {
            answer = code + " " + encoded(out) + " " + encoded(err);
        }
    }

    private static String decoded(String word) {
        return new String(Base64.getDecoder().decode(word.substring(1)), StandardCharsets.UTF_8);
    }

    private static String encoded(ByteArrayOutputStream bytes) {
        return "=" + Base64.getEncoder().encodeToString(bytes.toByteArray());
    }
}
