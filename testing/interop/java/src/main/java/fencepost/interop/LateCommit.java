package fencepost.interop;

import java.util.Map;
import java.util.UUID;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.ProducerFencedException;

/**
 * A commit that comes after the coordinator has aborted the transaction for its timeout (KAFKA-20785). An application that does as
 * the documentation of the producer says closes it when it is fenced and goes on with a new one; any other exception ends it.
 */
final class LateCommit {
    private static final int TIMEOUT_MS = 500;

    private LateCommit() {
    }

    static String run(Options options) throws Exception {
        String topic = "late-commit-" + UUID.randomUUID();
        Clients clients = new Clients(options.text("bootstrap"));
        clients.createTopics(topic);
        Map<String, Object> settings = Map.of("transactional.id", topic, "transaction.timeout.ms", TIMEOUT_MS);
        String seen = "nothing";
        boolean goesOn = false;
        try (KafkaProducer<String, String> producer = clients.producer(settings)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "late")).get();
            Thread.sleep(options.number("wait-ms", 3 * TIMEOUT_MS));
            try {
                producer.commitTransaction();
            } catch (ProducerFencedException e) {
                seen = e.getClass().getSimpleName();
                goesOn = true;
            } catch (KafkaException e) {
                seen = e.getClass().getSimpleName();
            }
        }
        if (goesOn) {
            try (KafkaProducer<String, String> next = clients.producer(settings)) {
                next.initTransactions();
                next.beginTransaction();
                next.send(new ProducerRecord<>(topic, 0, null, "again")).get();
                next.commitTransaction();
            }
        }
        return String.format("late commit: %s, the application %s", seen, goesOn ? "goes on" : "ends");
    }
}
