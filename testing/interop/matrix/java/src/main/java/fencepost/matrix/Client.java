package fencepost.matrix;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Makes producers and consumers, and reads whole topics. */
final class Client implements AutoCloseable {
    static final Duration PAUSE = Duration.ofMillis(200);

    final Admin admin;
    private final String bootstrap;

    Client(String bootstrap) {
        this.bootstrap = bootstrap;
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    @Override
    public void close() {
        admin.close(Duration.ofSeconds(2));
    }

    /** Makes topics and waits a moment: with Apache Kafka a broker hears of them later than the controller answers. */
    void create(int partitions, String... topics) throws Exception {
        for (String topic : topics) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        }
        Thread.sleep(300);
    }

    KafkaProducer<String, String> producer(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("bootstrap.servers", bootstrap);
        all.putIfAbsent("enable.idempotence", false);
        KafkaProducer<String, String> producer = new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
        if (settings.containsKey("transactional.id")) {
            producer.initTransactions();
        }
        return producer;
    }

    KafkaProducer<String, String> transactional(String id) {
        return producer(Map.of("transactional.id", id, "enable.idempotence", true));
    }

    KafkaConsumer<String, String> consumer(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("bootstrap.servers", bootstrap);
        all.put("enable.auto.commit", false);
        all.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    KafkaConsumer<String, String> member(String group, String topic, String protocol) {
        Map<String, Object> settings = new HashMap<>(Map.of("group.id", group, "isolation.level", "read_committed", "max.poll.records", 20));
        settings.put("group.protocol", protocol);
        if (protocol.equals("classic")) {
            settings.put("session.timeout.ms", 10000);
            settings.put("heartbeat.interval.ms", 300);
        }
        KafkaConsumer<String, String> consumer = consumer(settings);
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    static void send(KafkaProducer<String, String> producer, String topic, List<Item> items) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (Item item : items) {
            sent.add(producer.send(item.to(topic)));
        }
        for (Future<RecordMetadata> future : sent) {
            future.get();
        }
    }

    void send(Map<String, Object> settings, String topic, List<Item> items) throws Exception {
        try (KafkaProducer<String, String> producer = producer(settings)) {
            send(producer, topic, items);
        }
    }

    /** Puts the last record on every partition. */
    void seal(String topic, int partitions) throws Exception {
        List<Item> ends = new ArrayList<>();
        for (int p = 0; p < partitions; p++) {
            ends.add(new Item(p, "k", Item.END, "h"));
        }
        send(Map.of(), topic, ends);
    }

    /** What each partition of a sealed topic holds before its last record. */
    Map<Integer, List<Item>> read(String topic, int partitions, boolean committed) {
        Map<Integer, List<Item>> read = new TreeMap<>();
        List<TopicPartition> all = new ArrayList<>();
        for (int p = 0; p < partitions; p++) {
            read.put(p, new ArrayList<>());
            all.add(new TopicPartition(topic, p));
        }
        int open = partitions;
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("isolation.level", committed ? "read_committed" : "read_uncommitted"))) {
            consumer.assign(all);
            consumer.seekToBeginning(all);
            while (open > 0) {
                for (ConsumerRecord<String, String> record : consumer.poll(PAUSE)) {
                    if (record.value().equals(Item.END)) {
                        open--;
                    } else {
                        read.get(record.partition()).add(Item.of(record));
                    }
                }
            }
        }
        return read;
    }

    /** Compares a sealed topic with what was sent, each partition in order. */
    void holds(String topic, int partitions, boolean committed, List<Item> sent) {
        read(topic, partitions, committed).forEach((p, items) -> {
            List<Item> wanted = sent.stream().filter(item -> item.partition() == p).toList();
            Check.that(items.equals(wanted), "%s-%d%s: wanted %s, read %s", topic, p, committed ? " read_committed" : "", wanted, items);
        });
    }

    Map<Integer, Long> committed(String group, String topic) throws Exception {
        Map<Integer, Long> found = new TreeMap<>();
        Map<TopicPartition, OffsetAndMetadata> offsets = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
        offsets.forEach((partition, at) -> {
            if (partition.topic().equals(topic) && at != null) {
                found.put(partition.partition(), at.offset());
            }
        });
        return found;
    }
}
