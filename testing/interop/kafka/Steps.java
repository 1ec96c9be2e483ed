import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.utils.internals.Exit;

/** Runs one of Kafka's tools once for each line of standard input, in one process: its arguments, what it prints, its exit status. */
final class Steps {
    private Steps() {
    }

    /** The tool would end the process here. */
    private static final class Ended extends RuntimeException {
        private static final long serialVersionUID = 1;
        private final int status;

        Ended(int status) {
            this.status = status;
        }
    }

    public static void main(String[] arguments) throws Exception {
        Method tool = Class.forName(arguments[0]).getMethod("main", String[].class);
        Exit.setExitProcedure((status, message) -> {
            throw new Ended(status);
        });
        System.setErr(System.out);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println("$ " + line);
            List<String> all = new ArrayList<>(Arrays.asList(arguments).subList(1, arguments.length));
            all.addAll(Arrays.asList(line.split(" ")));
            System.out.println("status " + status(tool, all.toArray(String[]::new)));
        }
    }

    private static int status(Method tool, String[] arguments) throws Exception {
        try {
            tool.invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof Ended ended) {
                return ended.status;
            }
            System.out.println(e.getCause());
            return 1;
        }
    }
}
