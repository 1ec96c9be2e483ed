package fencepost.matrix;

import java.io.InputStream;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** {@code Main CLIENT BOOTSTRAP SCOPE CAPABILITY…}: CLIENT is java or console; one line of JSON for each capability. */
public final class Main {
    private static final int PATIENCE_S = 40;

    private Main() {
    }

    public static void main(String[] arguments) throws Exception {
        boolean console = arguments[0].equals("console");
        String name = console ? "web console's calls (Java Admin)" : "Java";
        Properties about = new Properties();
        try (InputStream in = Main.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            about.load(in);
        }
        String version = about.getProperty("version");
        ExecutorService executor = Executors.newCachedThreadPool(task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        });
        for (String capability : List.of(arguments).subList(3, arguments.length)) {
            String scope = arguments[2] + "-" + capability;
            Future<String> running = executor.submit(() -> {
                try (Client client = new Client(arguments[1])) {
                    return console ? new Console(client, scope).run() : new Scenarios(client, scope).run(capability);
                }
            });
            String result = "pass";
            String detail;
            try {
                detail = running.get(PATIENCE_S, TimeUnit.SECONDS);
            } catch (ExecutionException e) {
                result = "fail";
                detail = e.getCause().toString();
            } catch (TimeoutException e) {
                result = "fail";
                detail = "no end in " + PATIENCE_S + " s";
                running.cancel(true);
            }
            System.out.println(json(name, version, capability, result, detail));
        }
        System.exit(0);
    }

    private static String json(String client, String version, String capability, String result, String detail) {
        return String.format("{\"client\":%s,\"version\":%s,\"capability\":%s,\"result\":%s,\"detail\":%s}",
                text(client), text(version), text(capability), text(result), text(detail));
    }

    private static String text(String value) {
        String escaped = value.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\p{Cntrl}", " ");
        return "\"" + escaped + "\"";
    }
}
