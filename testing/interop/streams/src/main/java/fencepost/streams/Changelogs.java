package fencepost.streams;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The changelogs that the broker has compacted meanwhile: the last value of each key is the count, and older ones are gone. */
final class Changelogs {
    /** A key of a window store: the text, the start of the window (8 bytes), a number (4 bytes). */
    private static final int WINDOW_BYTES = 12;
    private static final Duration POLL = Duration.ofMillis(50);

    private final String bootstrap;
    private long records;

    Changelogs(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    String check(Map<String, Long> words, Map<String, Long> windows) {
        require("words", read("words", key -> new String(key, StandardCharsets.UTF_8)), words);
        String compacted = records + " records in a changelog of " + sum(words);
        require("windows", read("windows", Changelogs::window), windows);
        return compacted;
    }

    private static void require(String store, Map<String, Long> found, Map<String, Long> wanted) {
        if (!found.equals(wanted)) {
            throw new Failure("the changelog of " + store + " tells of " + sum(found) + " updates, not of " + sum(wanted));
        }
    }

    private static long sum(Map<String, Long> counts) {
        return counts.values().stream().mapToLong(Long::longValue).sum();
    }

    private static String window(byte[] key) {
        int text = key.length - WINDOW_BYTES;
        return new String(key, 0, text, StandardCharsets.UTF_8) + "@" + ByteBuffer.wrap(key).getLong(text);
    }

    private Map<String, Long> read(String store, Function<byte[], String> name) {
        String topic = Application.ID + "-" + store + "-changelog";
        Map<String, Long> last = new TreeMap<>();
        records = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                Map.of("bootstrap.servers", bootstrap, "isolation.level", "read_committed", "auto.offset.reset", "earliest"),
                new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> all =
                consumer.partitionsFor(topic).stream().map(p -> new TopicPartition(topic, p.partition())).toList();
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Map<TopicPartition, Long> ends = consumer.endOffsets(all);
            while (all.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
                for (ConsumerRecord<byte[], byte[]> one : consumer.poll(POLL)) {
                    last.put(name.apply(one.key()), ByteBuffer.wrap(one.value()).getLong());
                    records++;
                }
            }
        }
        return last;
    }
}
