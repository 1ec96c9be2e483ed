package fencepost.interop;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.producer.KafkaProducer;

/**
 * Commits that race an abort of the coordinator (KAFKA-20785), for the transaction's timeout or for a new instance of the producer,
 * around it by a random span. Each round is one producer whose transaction has a record in every partition. An application that does
 * as the documentation says goes on with a new producer when it is fenced; any other exception ends it.
 *
 * <p>A round that is told "committed" has all of its records visible to read_committed, any other one none.
 */
final class LateCommit {
    private static final int TIMEOUT_MS = 1_000;
    private static final int THREADS = 8;

    private final Clients clients;
    private final String topic = "late-commit-" + UUID.randomUUID();
    private final boolean isTimeout;
    private final int fromMs;
    private final int toMs;

    private LateCommit(Options options) throws Exception {
        clients = new Clients(options.text("bootstrap"));
        isTimeout = options.text("race", "timeout").equals("timeout");
        fromMs = options.number("from-ms", -20);
        toMs = options.number("to-ms", 60);
        clients.createTopics(topic);
    }

    /** What a round was told, and the names of its records. */
    private record Round(String told, Set<String> values) {
    }

    static String run(Options options) throws Exception {
        LateCommit run = new LateCommit(options);
        Random random = new Random(options.number("seed", 1));
        List<String> ids = options.text("ids", "").isEmpty()
            ? IntStream.range(0, options.number("rounds", 100)).mapToObj(n -> run.topic + "-" + n).toList()
            : Arrays.asList(options.text("ids").split(","));
        List<Round> rounds = new ArrayList<>();
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        try {
            List<Future<Round>> started = new ArrayList<>();
            for (String id : ids) {
                int offsetMs = random.nextInt(run.fromMs, run.toMs);
                started.add(threads.submit(() -> run.round(id, offsetMs)));
            }
            for (Future<Round> one : started) {
                rounds.add(one.get());
            }
        } finally {
            threads.shutdownNow();
        }
        run.clients.checkVisible(run.topic, rounds.stream().flatMap(round -> round.values().stream()).collect(Collectors.toSet()));
        Map<String, Long> outcomes = rounds.stream().collect(Collectors.groupingBy(Round::told, TreeMap::new, Collectors.counting()));
        return String.format("late commit, %s, %d rounds: %s", run.isTimeout ? "timeout" : "new instance", rounds.size(), outcomes);
    }

    private Round round(String id, int offsetMs) throws Exception {
        Map<String, Object> settings = Map.of("transactional.id", id, "transaction.timeout.ms", isTimeout ? TIMEOUT_MS : 60_000);
        Set<String> values = new HashSet<>();
        String told;
        try (KafkaProducer<String, String> producer = clients.producer(settings);
                KafkaProducer<String, String> other = clients.producer(settings)) {
            producer.initTransactions();
            long began = System.nanoTime();
            producer.beginTransaction();
            told = Verdict.of(() -> {
                values.addAll(Clients.sendAll(producer, topic, id + "-late"));
                if (isTimeout) {
                    sleepUntil(began + (TIMEOUT_MS + offsetMs) * 1_000_000L);
                    producer.commitTransaction();
                    return;
                }
                // The commit comes so much later than the new instance, or earlier.
                long now = System.nanoTime();
                Thread instance = new Thread(() -> replace(other, now + Math.max(0, -offsetMs) * 1_000_000L));
                instance.start();
                try {
                    sleepUntil(now + Math.max(0, offsetMs) * 1_000_000L);
                    producer.commitTransaction();
                } finally {
                    instance.join();
                }
            });
        }
        Set<String> again = new HashSet<>();
        if (!told.startsWith("ended")) {
            // On a busy machine this one may take longer than the timeout.
            try (KafkaProducer<String, String> next = clients.producer(Map.of("transactional.id", id))) {
                next.initTransactions();
                next.beginTransaction();
                again = Clients.sendAll(next, topic, id + "-again");
                next.commitTransaction();
            }
        }
        Set<String> visible = new HashSet<>(again);
        if (told.equals(Verdict.COMMITTED)) {
            visible.addAll(values);
        }
        return new Round(told, visible);
    }

    private static void replace(KafkaProducer<String, String> other, long atNanos) {
        try {
            sleepUntil(atNanos);
            other.initTransactions();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static void sleepUntil(long atNanos) throws InterruptedException {
        for (long left = atNanos - System.nanoTime(); left > 0; left = atNanos - System.nanoTime()) {
            Thread.sleep(left / 1_000_000, (int) (left % 1_000_000));
        }
    }
}
