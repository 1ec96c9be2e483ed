package fencepost.streams;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Makes the topics and feeds numbered records with an idempotent producer until it is told to end; then says how many. */
final class Feeder {
    private static final int OUTPUT_PARTITIONS = 3;

    private Feeder() {
    }

    static String run(Options options) throws Exception {
        String bootstrap = options.text("bootstrap");
        createTopics(bootstrap);
        System.out.println("topics");
        long base = options.number("base");
        long pauseNanos = TimeUnit.SECONDS.toNanos(1) / options.number("rate");
        AtomicReference<Exception> failed = new AtomicReference<>();
        long n = 0;
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(Map.of(
                // One request at a time: where the first of several meets a partition that Kafka has not opened yet, and the second finds
                // it open, the sequence of the first is out of order for good.
                "bootstrap.servers", bootstrap, "linger.ms", 5, "delivery.timeout.ms", 300_000, "max.in.flight.requests.per.connection", 1),
                new StringSerializer(), new StringSerializer())) {
            long next = System.nanoTime();
            while (System.in.available() == 0) {
                for (ProducerRecord<String, String> one : records(base, n)) {
                    producer.send(one, (metadata, error) -> {
                        if (error != null) {
                            failed.set(error);
                        }
                    });
                }
                n++;
                next += pauseNanos;
                TimeUnit.NANOSECONDS.sleep(next - System.nanoTime());
            }
        }
        if (failed.get() != null) {
            throw failed.get();
        }
        return "fed " + n;
    }

    private static List<ProducerRecord<String, String>> records(long base, long n) {
        long at = Input.timestamp(base, n);
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        records.add(to(Input.LINES, n, at, String.join(" ", Input.words(n))));
        records.add(to(Input.LEFT, n, at, Input.key(n) + ":" + n));
        records.add(to(Input.RIGHT, n, at, Input.key(n) + ":" + n));
        return records;
    }

    private static ProducerRecord<String, String> to(String topic, long n, long at, String value) {
        return new ProducerRecord<>(topic, (int) (n % Input.PARTITIONS.get(topic)), at, null, value);
    }

    private static void createTopics(String bootstrap) throws InterruptedException, ExecutionException {
        List<NewTopic> topics = new ArrayList<>();
        Input.PARTITIONS.forEach((name, partitions) -> topics.add(new NewTopic(name, partitions, (short) 1)));
        for (String name : Watcher.OUTPUTS) {
            topics.add(new NewTopic(name, OUTPUT_PARTITIONS, (short) 1));
        }
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(topics).all().get();
        }
    }
}
