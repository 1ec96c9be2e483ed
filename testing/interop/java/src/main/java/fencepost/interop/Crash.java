package fencepost.interop;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecords;

/**
 * The worker that is killed, and what goes round it: {@code fill} adds numbered records to the source, {@code work} copies until the
 * end of the source is reached and says after each commit how many records this process has committed, {@code verify} compares.
 */
final class Crash {
    private static final int BATCH = 5;
    /** The length of a transaction, so that a kill finds one open more often than not. */
    private static final long WORK_MS = 5;

    private Crash() {
    }

    static String fill(Options options) throws Exception {
        Clients clients = new Clients(options.text("bootstrap"));
        clients.createTopics(options.text("source"), options.text("target"));
        clients.fill(options.text("source"), options.number("first", 0), options.number("count", 0));
        return "filled";
    }

    static String work(Options options) throws Exception {
        Map<String, Object> settings = new HashMap<>(Map.of("session.timeout.ms", 6000, "heartbeat.interval.ms", 1000));
        String instance = options.text("instance", "");
        if (!instance.isEmpty()) {
            settings.put("group.instance.id", instance);
        }
        Clients clients = new Clients(options.text("bootstrap"));
        int committed = 0;
        try (Worker worker = new Worker(
                clients, options.text("source"), options.text("target"), options.text("group"), options.text("txn"), BATCH, settings)) {
            worker.subscribe();
            while (true) {
                ConsumerRecords<String, String> batch = worker.poll();
                if (!batch.isEmpty()) {
                    worker.copy(batch);
                    Thread.sleep(WORK_MS);
                    worker.commit();
                    committed += batch.count();
                    System.out.println("committed " + committed);
                } else if (worker.atEnd()) {
                    return "end";
                }
            }
        }
    }

    static String verify(Options options) {
        Clients clients = new Clients(options.text("bootstrap"));
        Comparison seen = Comparison.of(
                clients.read(options.text("source"), "read_uncommitted"), clients.read(options.text("target"), "read_committed"));
        seen.require();
        long lag = clients.lag(options.text("group"), options.text("source"));
        if (lag != 0) {
            throw new Failure("committed offsets are " + lag + " behind");
        }
        return seen.toString();
    }
}
