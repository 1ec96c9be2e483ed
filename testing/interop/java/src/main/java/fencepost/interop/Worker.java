package fencepost.interop;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Copies records from one topic to another in transactions that carry the consumer's offsets. */
final class Worker implements AutoCloseable {
    final KafkaConsumer<String, String> consumer;
    final KafkaProducer<String, String> producer;
    private final String source;
    private final String target;

    /** Takes over whatever an earlier worker of the same transactional id has left behind. */
    Worker(Clients clients, String source, String target, String group, String txn, int batch, Map<String, Object> consumerSettings) {
        this.source = source;
        this.target = target;
        Map<String, Object> settings = new HashMap<>(consumerSettings);
        settings.put("max.poll.records", batch);
        consumer = clients.consumer(group, "read_committed", settings);
        producer = clients.producer(Map.of("transactional.id", txn, "transaction.timeout.ms", 60000));
        producer.initTransactions();
    }

    void subscribe() {
        consumer.subscribe(Set.of(source));
    }

    ConsumerRecords<String, String> poll() {
        return consumer.poll(Clients.POLL);
    }

    /** Begins a transaction over a batch: its copies and the offsets behind it, not yet decided. */
    void copy(ConsumerRecords<String, String> batch) {
        producer.beginTransaction();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<String, String> one : batch) {
            producer.send(new ProducerRecord<>(target, one.partition(), null, one.value()));
            offsets.put(new TopicPartition(source, one.partition()), new OffsetAndMetadata(one.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        producer.flush();
    }

    void commit() {
        producer.commitTransaction();
    }

    /** Aborts, and goes back to what the group has committed. */
    void abort() {
        producer.abortTransaction();
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment(), Clients.PATIENCE);
        for (TopicPartition part : consumer.assignment()) {
            OffsetAndMetadata at = committed.get(part);
            consumer.seek(part, at == null ? 0 : at.offset());
        }
    }

    /** Whether every partition is assigned and read to its end. */
    boolean atEnd() {
        Set<TopicPartition> assigned = consumer.assignment();
        if (assigned.size() < Clients.PARTITIONS) {
            return false;
        }
        Map<TopicPartition, Long> ends = consumer.endOffsets(assigned, Clients.PATIENCE);
        return assigned.stream().allMatch(p -> consumer.position(p) >= ends.get(p));
    }

    @Override
    public void close() {
        consumer.close();
        producer.close();
    }
}
