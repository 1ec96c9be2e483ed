package fencepost.interop;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Clients of one broker, and the steps that the programs share. */
final class Clients {
    static final int PARTITIONS = 2;
    static final Duration PATIENCE = Duration.ofSeconds(60);
    static final Duration POLL = Duration.ofMillis(500);

    private final String bootstrap;

    Clients(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    void createTopics(String... names) throws InterruptedException, ExecutionException {
        for (String name : names) {
            createTopic(name, PARTITIONS);
        }
    }

    void createTopic(String name, int partitions) throws InterruptedException, ExecutionException {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(Set.of(new NewTopic(name, partitions, (short) 1))).all().get();
        } catch (ExecutionException e) {
            if (!(e.getCause() instanceof TopicExistsException)) {
                throw e;
            }
        }
    }

    /** Numbered values from {@code first}, one partition after the other. */
    void fill(String topic, int first, int count) throws InterruptedException, ExecutionException {
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int n = first; n < first + count; n++) {
                sent.add(producer.send(new ProducerRecord<>(topic, n % PARTITIONS, null, value(n))));
            }
            for (Future<RecordMetadata> one : sent) {
                one.get();
            }
        }
    }

    static String value(int n) {
        return String.format("%08d", n);
    }

    KafkaProducer<String, String> producer(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(more);
        settings.put("bootstrap.servers", bootstrap);
        settings.putIfAbsent("max.block.ms", PATIENCE.toMillis());
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    KafkaConsumer<String, String> consumer(String group, String isolation, Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(more);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", isolation);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    static List<TopicPartition> partitions(String topic) {
        return IntStream.range(0, PARTITIONS).mapToObj(n -> new TopicPartition(topic, n)).toList();
    }

    /** Every value of the topic up to its end, by partition. */
    List<List<String>> read(String topic, String isolation) {
        List<List<String>> seen = IntStream.range(0, PARTITIONS).<List<String>>mapToObj(n -> new ArrayList<>()).toList();
        try (KafkaConsumer<String, String> consumer = consumer("reader-" + UUID.randomUUID(), isolation, Map.of())) {
            List<TopicPartition> parts = partitions(topic);
            consumer.assign(parts);
            Map<TopicPartition, Long> ends = consumer.endOffsets(parts);
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            while (parts.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
                if (System.nanoTime() > deadline) {
                    throw new Failure("the " + isolation + " reader did not reach the end of " + topic);
                }
                for (ConsumerRecord<String, String> one : consumer.poll(POLL)) {
                    seen.get(one.partition()).add(one.value());
                }
            }
        }
        return seen;
    }

    /** Records of the topic behind the group's committed offsets. */
    long lag(String group, String topic) {
        try (KafkaConsumer<String, String> consumer = consumer(group, "read_uncommitted", Map.of())) {
            List<TopicPartition> parts = partitions(topic);
            Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(Set.copyOf(parts), PATIENCE);
            Map<TopicPartition, Long> ends = consumer.endOffsets(parts);
            return parts.stream().mapToLong(p -> ends.get(p) - (committed.get(p) == null ? 0 : committed.get(p).offset())).sum();
        }
    }

    /** Sends a value to each partition, {@code name} with its number, and waits for all; the values. */
    static Set<String> sendAll(KafkaProducer<String, String> producer, String topic, String name) throws InterruptedException, ExecutionException {
        return sendAll(producer, topic, PARTITIONS, name);
    }

    /** The same for a topic of so many partitions. */
    static Set<String> sendAll(KafkaProducer<String, String> producer, String topic, int partitions, String name)
        throws InterruptedException, ExecutionException {
        Set<String> values = new HashSet<>();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int partition = 0; partition < partitions; partition++) {
            String value = name + "-" + partition;
            values.add(value);
            sent.add(producer.send(new ProducerRecord<>(topic, partition, null, value)));
        }
        for (Future<RecordMetadata> one : sent) {
            one.get();
        }
        return values;
    }

    /** Fails unless a read_committed reader sees these values of the topic, each once, and no others. */
    void checkVisible(String topic, Set<String> wanted) {
        List<String> seen = read(topic, "read_committed").stream().flatMap(List::stream).toList();
        if (seen.size() != new HashSet<>(seen).size() || !wanted.equals(new HashSet<>(seen))) {
            Set<String> lost = new HashSet<>(wanted);
            lost.removeAll(new HashSet<>(seen));
            Set<String> wrong = new HashSet<>(seen);
            wrong.removeAll(wanted);
            throw new Failure("confirmed and not visible: " + lost + "; visible and not confirmed: " + wrong);
        }
    }
}
