package fencepost.interop;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Errors;

/**
 * Commits that meet an abort of the coordinator (KAFKA-20785) at a known point of it: a proxy keeps the commit back until the
 * coordinator is there.
 *
 * <p>The abort is held between its decision and its end by a partition that refuses the coordinator's marker: an operator has written one of a later
 * coordinator to it. Such a transaction completes when that topic is deleted and the broker has started again, which this program asks for by
 * the line "restart"; it goes on when a line comes back.
 *
 * <p>An abort of many partitions takes a while, so that the commit can also come while their markers are being written, with nothing held. That it
 * did is known by its first answer, or by the state that is described after it was sent: a round in which it came too late is taken again.
 *
 * <p>A round that does not come to its point fails. Each one ends like those of {@link LateCommit}.
 */
final class HeldCommit {
    private static final int TIMEOUT_MS = 2_000;
    /** For so many partitions that writing their markers takes a while. */
    private static final int WIDE_TIMEOUT_MS = 6_000;
    private static final int WIDE = 300;
    private static final int TRIES = 10;
    private static final int BLOCK_MS = 180_000;
    private static final int LATER_COORDINATOR = 1_000_000;

    /** Where the commit meets the abort. */
    private enum Point {
        BEFORE_THE_ABORT("before the abort"),
        BEFORE_THE_MARKERS("the abort is decided, no marker is written"),
        BETWEEN_THE_MARKERS("some markers are written"),
        WHILE_MARKERS_ARE_WRITTEN("markers are being written"),
        AFTER_THE_MARKERS("the abort is complete"),
        SUCCESSOR("a successor has its pair");

        final String words;

        Point(String words) {
            this.words = words;
        }

        boolean isHeld() {
            return this == BEFORE_THE_MARKERS || this == BETWEEN_THE_MARKERS;
        }
    }

    /** What a round is, and what it was told. */
    private record Told(String round, String told, Set<String> visible) {
    }

    private final String bootstrap;
    private final Clients clients;
    private final Admin admin;
    private final String topic = "held-commit-" + UUID.randomUUID();

    private HeldCommit(Options options) throws Exception {
        bootstrap = options.text("bootstrap");
        clients = new Clients(bootstrap);
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        clients.createTopics(topic);
        clients.createTopic(wide(), WIDE);
    }

    private String wide() {
        return topic + "-wide";
    }

    static String run(Options options) throws Exception {
        HeldCommit run = new HeldCommit(options);
        Queue<String> ids = new ArrayDeque<>(Arrays.asList(options.text("ids", "").split(",")));
        boolean isNamed = !options.text("ids", "").isEmpty();
        int rounds = options.number("rounds", 5);
        List<Round> all = new ArrayList<>();
        ExecutorService threads = Executors.newCachedThreadPool();
        try {
            for (boolean isTimeout : List.of(true, false)) {
                for (Point point : Point.values()) {
                    boolean isWide = point == Point.WHILE_MARKERS_ARE_WRITTEN;
                    for (int n = 0; n < rounds && !(isNamed && isWide); n++) {
                        String id = isNamed ? ids.remove() : run.topic + "-" + all.size();
                        Round round = run.new Round(id, isTimeout, point);
                        all.add(round);
                        for (int again = 1; isWide && !round.isMet(); again++) {
                            if (again == TRIES) {
                                throw new Failure("no commit came while markers were written");
                            }
                            round = run.new Round(id + "-" + again, isTimeout, point);
                            all.add(round);
                        }
                    }
                }
            }
            List<Round> held = all.stream().filter(round -> round.point.isHeld()).toList();
            each(threads, all.stream().filter(round -> !round.point.isHeld() && round.point != Point.WHILE_MARKERS_ARE_WRITTEN).toList(), Round::meet);
            each(threads, held, Round::meet);
            if (!held.isEmpty()) {
                run.admin.deleteTopics(held.stream().map(Round::refusing).toList()).all().get();
                System.out.println("restart");
                System.in.read();
            }
            List<Told> told = each(threads, all, Round::end);
            run.clients.checkVisible(run.topic, told.stream().flatMap(one -> one.visible().stream()).collect(Collectors.toSet()));
            return table(told);
        } finally {
            for (Round round : all) {
                round.close();
            }
            threads.shutdownNow();
            run.admin.close();
        }
    }

    private static String table(List<Told> told) {
        Map<String, Map<String, Long>> table = told.stream().collect(Collectors.groupingBy(
            Told::round, LinkedHashMap::new, Collectors.groupingBy(Told::told, TreeMap::new, Collectors.counting())));
        List<String> lines = new ArrayList<>();
        table.forEach((round, outcomes) -> lines.add("  " + round + ": " + outcomes));
        return String.join(System.lineSeparator(), lines);
    }

    /** A step of a round. */
    private interface Step<T> {
        T take(Round round) throws Exception;
    }

    private static <T> List<T> each(ExecutorService threads, Collection<Round> rounds, Step<T> step) throws Exception {
        List<Callable<T>> steps = rounds.stream().<Callable<T>>map(round -> () -> step.take(round)).toList();
        List<T> results = new ArrayList<>();
        for (Future<T> one : threads.invokeAll(steps)) {
            results.add(one.get());
        }
        return results;
    }

    /** One transactional id. */
    private final class Round implements AutoCloseable {
        private final String id;
        private final boolean isTimeout;
        private final Point point;
        private final HoldingProxy commits;
        /** Keeps the successor from its pair: the first InitProducerId aborts, the second one gets it. */
        private final HoldingProxy pairs;
        private final KafkaProducer<String, String> producer;
        private final KafkaProducer<String, String> other;
        private final Set<String> values = new HashSet<>();
        private final ExecutorService own = Executors.newCachedThreadPool();
        private Future<String> verdict;
        private Future<?> succession;
        private boolean isTooLate;

        Round(String id, boolean isTimeout, Point point) throws Exception {
            this.id = id;
            this.isTimeout = isTimeout;
            this.point = point;
            commits = new HoldingProxy(bootstrap, HoldingProxy.END_TXN, 0);
            boolean waits = !isTimeout && point != Point.SUCCESSOR;
            pairs = new HoldingProxy(bootstrap, HoldingProxy.INIT_PRODUCER_ID, waits ? 1 : Integer.MAX_VALUE);
            int timeoutMs = point == Point.WHILE_MARKERS_ARE_WRITTEN ? WIDE_TIMEOUT_MS : TIMEOUT_MS;
            boolean mayTimeOut = isTimeout && point != Point.BEFORE_THE_ABORT;
            Map<String, Object> settings = Map.of("transactional.id", id, "transaction.timeout.ms", mayTimeOut ? timeoutMs : 60_000, "max.block.ms", BLOCK_MS);
            producer = new Clients(commits.address()).producer(settings);
            other = new Clients(pairs.address()).producer(settings);
        }

        /** The topic that refuses the coordinator's markers. */
        String refusing() {
            return id + "-refuses";
        }

        /** Begins the abort, and lets the commit go when it has come to the point. */
        Void meet() throws Exception {
            producer.initTransactions();
            if (point.isHeld()) {
                clients.createTopics(refusing());
            }
            producer.beginTransaction();
            if (point != Point.BEFORE_THE_MARKERS) {
                values.addAll(Clients.sendAll(producer, topic, id + "-late"));
            }
            if (point.isHeld()) {
                Clients.sendAll(producer, refusing(), id);
                refuse();
            }
            if (point == Point.WHILE_MARKERS_ARE_WRITTEN) {
                Clients.sendAll(producer, wide(), WIDE, id);
            }
            expect(TransactionState.ONGOING);
            verdict = own.submit(() -> Verdict.of(producer::commitTransaction));
            commits.awaitHeld();
            if (point == Point.BEFORE_THE_ABORT) {
                commits.letGo();
                verdict.get();
                return null;
            }
            abort();
            commits.letGo();
            commits.awaitPassed();
            TransactionState state = described().state();
            Errors first = Errors.forCode(commits.firstAnswer());
            if (point == Point.WHILE_MARKERS_ARE_WRITTEN) {
                isTooLate = first != Errors.CONCURRENT_TRANSACTIONS && state != TransactionState.PREPARE_ABORT;
            } else if (point.isHeld() != (first == Errors.CONCURRENT_TRANSACTIONS)) {
                throw new Failure(id + ", " + point.words + ": the commit was first told " + first);
            }
            return null;
        }

        /** The same; whether it was in time. */
        boolean isMet() throws Exception {
            meet();
            return !isTooLate;
        }

        /** Begins the abort and waits until it has come to the point. */
        private void abort() throws Exception {
            if (!isTimeout) {
                succession = own.submit(other::initTransactions);
            }
            if (point.isHeld()) {
                await(TransactionState.PREPARE_ABORT);
                if (point == Point.BETWEEN_THE_MARKERS) {
                    for (TopicPartition partition : Clients.partitions(topic)) {
                        awaitMarker(partition);
                    }
                }
                expect(TransactionState.PREPARE_ABORT);
            } else if (point == Point.WHILE_MARKERS_ARE_WRITTEN) {
                while (described().state() == TransactionState.ONGOING) {
                    Thread.onSpinWait();
                }
            } else if (point == Point.AFTER_THE_MARKERS) {
                await(TransactionState.COMPLETE_ABORT);
            } else {
                if (isTimeout) {
                    await(TransactionState.COMPLETE_ABORT);
                    other.initTransactions();
                } else {
                    succession.get();
                }
                expect(TransactionState.EMPTY);
            }
        }

        /** The partition takes no marker of the coordinator any more. */
        private void refuse() throws Exception {
            TransactionDescription now = described();
            for (TopicPartition partition : Clients.partitions(refusing())) {
                admin.abortTransaction(new AbortTransactionSpec(partition, now.producerId(), (short) now.producerEpoch(), LATER_COORDINATOR)).all().get();
            }
        }

        private void awaitMarker(TopicPartition partition) throws Exception {
            long producerId = described().producerId();
            long deadline = System.nanoTime() + Clients.PATIENCE.toNanos();
            while (admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers().stream()
                .anyMatch(one -> one.producerId() == producerId && one.currentTransactionStartOffset().isPresent())) {
                if (System.nanoTime() > deadline) {
                    throw new Failure(partition + " got no marker");
                }
            }
        }

        private TransactionDescription described() throws Exception {
            return admin.describeTransactions(List.of(id)).description(id).get();
        }

        private void expect(TransactionState wanted) throws Exception {
            TransactionState state = described().state();
            if (state != wanted) {
                throw new Failure(id + ", " + point.words + ": " + state + " instead of " + wanted);
            }
        }

        private void await(TransactionState wanted) throws Exception {
            long deadline = System.nanoTime() + Clients.PATIENCE.toNanos();
            while (described().state() != wanted) {
                if (System.nanoTime() > deadline) {
                    expect(wanted);
                }
                Thread.sleep(5);
            }
        }

        /** What came of the commit; then a new producer goes on. */
        Told end() throws Exception {
            String told = verdict.get();
            if (told.equals(Verdict.COMMITTED) != (point == Point.BEFORE_THE_ABORT)) {
                throw new Failure(id + ", " + point.words + ": the application was told: " + told);
            }
            pairs.letGo();
            if (succession != null) {
                succession.get();
            }
            Set<String> visible = new HashSet<>();
            if (told.equals(Verdict.COMMITTED)) {
                visible.addAll(values);
            }
            if (!told.startsWith("ended")) {
                try (KafkaProducer<String, String> next = clients.producer(Map.of("transactional.id", id, "max.block.ms", BLOCK_MS))) {
                    next.initTransactions();
                    next.beginTransaction();
                    visible.addAll(Clients.sendAll(next, topic, id + "-again"));
                    next.commitTransaction();
                }
            }
            String round = (isTimeout ? "timeout, " : "new instance, ") + point.words;
            return new Told(round + (isTooLate ? " (it came too late)" : ""), told, visible);
        }

        @Override
        public void close() throws IOException {
            own.shutdownNow();
            producer.close(Duration.ZERO);
            other.close(Duration.ZERO);
            commits.close();
            pairs.close();
        }
    }
}
