package fencepost.interop;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * A producer that the broker is stopped or killed under, again and again: five requests in flight, each with small batches of several
 * partitions. Idempotent, or ({@code --kind transactional}) in transactions, of which each tenth is aborted. Afterwards a reader counts what
 * is there twice and what was acknowledged and is not there.
 *
 * <p>The restart is asked for by the line "restart"; the broker is back when a line comes.
 */
final class Bounce {
    private static final int PARTITIONS = 3;
    /** Records that are sent and not answered. */
    private static final int ROOM = 400;
    private static final int RECORDS_OF_ONE = 60;
    private static final int ABORTED_EACH = 10;
    /** Between two restarts. */
    private static final int ROUND_MS_MIN = 1_500;
    private static final int ROUND_MS_MORE = 1_000;
    private static final int AFTERWARDS_MS = 2_000;
    private static final Duration PATIENCE = Duration.ofMinutes(2);

    private final Clients clients;
    private final String topic = "bounce-" + UUID.randomUUID();
    private final AtomicBoolean isOver = new AtomicBoolean();
    private final ConcurrentMap<String, Integer> errors = new ConcurrentHashMap<>();
    private final Map<String, Integer> found = new HashMap<>();
    /** Values that must be there once; those that must not; sets of which all must be there, or none. */
    private final Set<String> confirmed = ConcurrentHashMap.newKeySet();
    private final Set<String> aborted = new HashSet<>();
    private final List<Set<String>> doubtful = new ArrayList<>();

    private Bounce(Options options) throws Exception {
        clients = new Clients(options.text("bootstrap"));
        clients.createTopic(topic, PARTITIONS);
    }

    static String run(Options options) throws Exception {
        Bounce run = new Bounce(options);
        boolean isTransactional = options.text("kind").equals("transactional");
        AtomicReference<Exception> trouble = new AtomicReference<>();
        Thread sender = new Thread(() -> {
            try {
                if (isTransactional) {
                    run.sendTransactions();
                } else {
                    run.send();
                }
            } catch (Exception e) {
                trouble.set(e);
            }
        });
        sender.start();
        Random random = new Random(options.number("seed", 1));
        for (int round = 0; round < options.number("rounds", 20); round++) {
            Thread.sleep(ROUND_MS_MIN + random.nextInt(ROUND_MS_MORE));
            System.out.println("restart");
            System.in.read();
        }
        Thread.sleep(AFTERWARDS_MS);
        run.isOver.set(true);
        sender.join();
        if (trouble.get() != null) {
            throw trouble.get();
        }
        run.read(isTransactional ? "read_committed" : "read_uncommitted");
        return run.told();
    }

    private KafkaProducer<String, String> producer(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(Map.of("acks", "all", "enable.idempotence", true, "batch.size", 512, "linger.ms", 0,
            "delivery.timeout.ms", 300_000, "reconnect.backoff.max.ms", 300));
        settings.putAll(more);
        return clients.producer(settings);
    }

    private ProducerRecord<String, String> record(int n) {
        return new ProducerRecord<>(topic, n % PARTITIONS, "k", Clients.value(n));
    }

    private void count(Exception e) {
        Throwable cause = e;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        errors.merge(cause.getClass().getSimpleName(), 1, Integer::sum);
    }

    private void send() {
        Semaphore room = new Semaphore(ROOM);
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            for (int n = 0; !isOver.get(); n++) {
                String value = Clients.value(n);
                room.acquireUninterruptibly();
                producer.send(record(n), (metadata, e) -> {
                    room.release();
                    if (e == null) {
                        confirmed.add(value);
                    } else {
                        count(e);
                    }
                });
            }
        }
    }

    private void sendTransactions() {
        Map<String, Object> settings = Map.of("transactional.id", topic);
        KafkaProducer<String, String> producer = producer(settings);
        producer.initTransactions();
        for (int transaction = 0; !isOver.get(); transaction++) {
            Set<String> values = new HashSet<>();
            boolean commits = transaction % ABORTED_EACH != 0;
            boolean isDecided = false;
            try {
                producer.beginTransaction();
                for (int n = transaction * RECORDS_OF_ONE; n < (transaction + 1) * RECORDS_OF_ONE; n++) {
                    values.add(Clients.value(n));
                    producer.send(record(n));
                }
                if (commits) {
                    // Without this the client sends the end of one in some thousand transactions ahead of all its batches, and no broker takes that.
                    producer.flush();
                }
                isDecided = commits;
                end(producer, commits);
                (commits ? confirmed : aborted).addAll(values);
            } catch (KafkaException e) {
                count(e);
                // What a commit has come to that ended so is not known.
                if (isDecided) {
                    doubtful.add(values);
                } else {
                    aborted.addAll(values);
                }
                producer = goOn(producer, settings);
            }
        }
        producer.close();
    }

    /** An answer that does not come in time is waited for again, as the client's documentation has it. */
    private static void end(KafkaProducer<String, String> producer, boolean commits) {
        for (long deadline = System.nanoTime() + PATIENCE.toNanos();;) {
            try {
                if (commits) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
                return;
            } catch (TimeoutException e) {
                if (System.nanoTime() > deadline) {
                    throw e;
                }
            }
        }
    }

    /** Aborts, or begins anew where that does not help. */
    private KafkaProducer<String, String> goOn(KafkaProducer<String, String> producer, Map<String, Object> settings) {
        try {
            end(producer, false);
            return producer;
        } catch (KafkaException | IllegalStateException e) {
            producer.close(Duration.ZERO);
            KafkaProducer<String, String> next = producer(settings);
            next.initTransactions();
            return next;
        }
    }

    private void read(String isolation) {
        List<TopicPartition> partitions = IntStream.range(0, PARTITIONS).mapToObj(n -> new TopicPartition(topic, n)).toList();
        try (KafkaConsumer<String, String> consumer = clients.consumer(topic, isolation, Map.of())) {
            consumer.assign(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            while (partitions.stream().anyMatch(partition -> consumer.position(partition) < ends.get(partition))) {
                if (System.nanoTime() > deadline) {
                    throw new Failure("the reader did not reach the end");
                }
                for (ConsumerRecord<String, String> one : consumer.poll(Clients.POLL)) {
                    found.merge(one.value(), 1, Integer::sum);
                }
            }
        }
    }

    private String told() {
        long twice = found.values().stream().filter(count -> count > 1).count();
        long lost = confirmed.stream().filter(value -> !found.containsKey(value)).count();
        long wrong = aborted.stream().filter(found::containsKey).count();
        long torn = doubtful.stream().filter(values -> {
            long there = values.stream().filter(found::containsKey).count();
            return there != 0 && there != values.size();
        }).count();
        String told = String.format("%d acknowledged, %d read, %d twice, %d lost, %d of aborted transactions, %d transactions in part, errors %s",
            confirmed.size(), found.size(), twice, lost, wrong, torn, new TreeMap<>(errors));
        if (twice + lost + wrong + torn > 0) {
            throw new Failure(told);
        }
        return told;
    }
}
