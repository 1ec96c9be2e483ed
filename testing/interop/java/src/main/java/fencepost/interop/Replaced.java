package fencepost.interop;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * What a producer is told that goes on with its transaction after a new instance has taken its transactional id over, by what it does next: it
 * commits, aborts, commits offsets, or sends to a partition that it has not sent to before. Given ids at the last epoch, their producer id has been
 * replaced by then.
 */
final class Replaced {
    private static final List<String> DEEDS = List.of("commits", "aborts", "commits offsets", "sends elsewhere");

    private Replaced() {
    }

    static String run(Options options) throws Exception {
        Clients clients = new Clients(options.text("bootstrap"));
        String topic = "replaced-" + UUID.randomUUID();
        clients.createTopics(topic);
        List<String> ids = options.text("ids", "").isEmpty() ? DEEDS.stream().map(deed -> topic + "-" + deed).toList() : Arrays.asList(options.text("ids").split(","));
        StringBuilder table = new StringBuilder();
        for (int n = 0; n < DEEDS.size(); n++) {
            table.append("  ").append(DEEDS.get(n)).append(": ").append(told(clients, topic, ids.get(n), DEEDS.get(n))).append(System.lineSeparator());
        }
        clients.checkVisible(topic, Set.of());
        return table.toString().stripTrailing();
    }

    private static String told(Clients clients, String topic, String id, String deed) throws Exception {
        TopicPartition first = Clients.partitions(topic).get(0);
        TopicPartition second = Clients.partitions(topic).get(1);
        try (KafkaProducer<String, String> old = clients.producer(Map.of("transactional.id", id));
                KafkaProducer<String, String> successor = clients.producer(Map.of("transactional.id", id));
                KafkaConsumer<String, String> consumer = clients.consumer(topic, "read_committed", Map.of())) {
            old.initTransactions();
            old.beginTransaction();
            old.send(new ProducerRecord<>(topic, first.partition(), null, id)).get();
            successor.initTransactions();
            ConsumerGroupMetadata group = consumer.groupMetadata();
            return Verdict.of(() -> {
                switch (deed) {
                    case "commits" -> old.commitTransaction();
                    case "aborts" -> old.abortTransaction();
                    case "commits offsets" -> old.sendOffsetsToTransaction(Map.of(first, new OffsetAndMetadata(1)), group);
                    default -> old.send(new ProducerRecord<>(topic, second.partition(), null, id)).get();
                }
            });
        }
    }
}
