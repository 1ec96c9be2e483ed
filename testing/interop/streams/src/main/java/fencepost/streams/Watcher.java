package fencepost.streams;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Reads the outputs as they are committed. Counts must come as 1, 2, 3, … and each pair once: what comes twice or is left out is said
 * at once. {@code end BASE FED} says what must have come in the end; {@code check}, after the application has closed, that nothing more may.
 */
final class Watcher {
    static final List<String> OUTPUTS = List.of(Application.WORD_COUNTS, Application.PAIRS, Application.WINDOW_COUNTS);
    private static final Duration POLL = Duration.ofMillis(50);
    /** On a machine with much else to do a first answer takes long. */
    private static final Duration PATIENCE = Duration.ofMinutes(5);

    private final String bootstrap;
    private final KafkaConsumer<String, byte[]> consumer;
    private final BlockingQueue<String> commands = new LinkedBlockingQueue<>();
    private final Map<TopicPartition, Long> seen = new TreeMap<>((a, b) -> a.toString().compareTo(b.toString()));
    private final Map<String, Map<String, Long>> found = new HashMap<>();

    Watcher(Options options) {
        bootstrap = options.text("bootstrap");
        consumer = new KafkaConsumer<>(Map.of(
            "bootstrap.servers", bootstrap, "isolation.level", "read_committed", "auto.offset.reset", "earliest", "fetch.max.wait.ms", 100),
            new StringDeserializer(), new ByteArrayDeserializer());
        OUTPUTS.forEach(topic -> found.put(topic, new TreeMap<>()));
    }

    String run() throws Exception {
        Thread stdin = new Thread(this::listen);
        stdin.setDaemon(true);
        stdin.start();
        List<TopicPartition> all = new ArrayList<>();
        for (String topic : OUTPUTS) {
            consumer.partitionsFor(topic, PATIENCE).forEach(p -> all.add(new TopicPartition(topic, p.partition())));
        }
        all.forEach(partition -> seen.put(partition, 0L));
        consumer.assign(all);
        consumer.seekToBeginning(all);
        Map<String, Map<String, Long>> wanted = null;
        long fed = 0;
        while (true) {
            boolean more = read();
            String command = commands.poll();
            if (command != null && command.startsWith("end ")) {
                fed = Long.parseLong(command.split(" ")[2]);
                wanted = wanted(Long.parseLong(command.split(" ")[1]), fed);
                more = true;
            } else if (command != null) {
                return check(all, wanted, fed);
            }
            if (more && found.equals(wanted)) {
                System.out.println("complete");
            }
        }
    }

    private void listen() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                commands.add(line);
            }
        } catch (IOException e) {
            System.out.println("stdin: " + e);
        }
        commands.add("check");
    }

    private static Map<String, Map<String, Long>> wanted(long base, long fed) {
        return Map.of(
            Application.WORD_COUNTS, Input.wordCounts(fed),
            Application.PAIRS, Input.pairs(fed),
            Application.WINDOW_COUNTS, Input.windowCounts(base, fed));
    }

    /** Takes in what has been committed, and says how far each partition is. */
    private boolean read() {
        boolean more = false;
        for (ConsumerRecord<String, byte[]> one : consumer.poll(POLL)) {
            take(one);
            seen.merge(new TopicPartition(one.topic(), one.partition()), 1L, Long::sum);
            more = true;
        }
        if (more) {
            System.out.println("seen " + String.join(" ", seen.values().stream().map(String::valueOf).toList()));
        }
        return more;
    }

    private void take(ConsumerRecord<String, byte[]> one) {
        Map<String, Long> counts = found.get(one.topic());
        if (one.topic().equals(Application.PAIRS)) {
            if (counts.merge(new String(one.value(), StandardCharsets.UTF_8), 1L, Long::sum) > 1) {
                throw new Failure("a pair came twice: " + place(one));
            }
            return;
        }
        try (LongDeserializer number = new LongDeserializer()) {
            long count = number.deserialize(one.topic(), one.value());
            long before = counts.getOrDefault(one.key(), 0L);
            if (count != before + 1) {
                throw new Failure("after " + before + " came " + count + ": " + place(one));
            }
            counts.put(one.key(), count);
        }
    }

    private static String place(ConsumerRecord<String, byte[]> one) {
        return one.key() + " at " + one.topic() + "-" + one.partition() + " offset " + one.offset();
    }

    /** Everything is there, nothing more is, and the application has left nothing open. */
    private String check(List<TopicPartition> all, Map<String, Map<String, Long>> wanted, long fed) throws Exception {
        Map<TopicPartition, Long> ends = consumer.endOffsets(all);
        while (all.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
            read();
        }
        for (String topic : OUTPUTS) {
            if (wanted == null || !wanted.get(topic).equals(found.get(topic))) {
                long sum = found.get(topic).values().stream().mapToLong(Long::longValue).sum();
                long due = wanted == null ? 0 : wanted.get(topic).values().stream().mapToLong(Long::longValue).sum();
                throw new Failure(topic + ": " + sum + " of " + due + " updates are there");
            }
        }
        Internals.check(bootstrap);
        String changelogs = new Changelogs(bootstrap).check(wanted.get(Application.WORD_COUNTS), wanted.get(Application.WINDOW_COUNTS));
        List<String> counts = new ArrayList<>();
        for (String topic : OUTPUTS) {
            counts.add(topic + " " + found.get(topic).values().stream().mapToLong(Long::longValue).sum());
        }
        return "exact: fed " + fed + ", " + String.join(", ", counts) + ", " + changelogs;
    }
}
