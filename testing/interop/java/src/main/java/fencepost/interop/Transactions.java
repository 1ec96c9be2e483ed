package fencepost.interop;

import java.util.Arrays;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Back-to-back transactions of one record each by one producer, timed. */
final class Transactions {
    private static final int WARM_UP = 200;

    private Transactions() {
    }

    static String run(Options options) throws Exception {
        int most = options.number("transactions", Integer.MAX_VALUE);
        long limit = options.number("seconds", Integer.MAX_VALUE) * 1_000_000_000L;
        String topic = "bench-" + UUID.randomUUID();
        Clients clients = new Clients(options.text("bootstrap"));
        clients.createTopics(topic);
        try (KafkaProducer<String, String> producer = clients.producer(Map.of("transactional.id", topic, "linger.ms", 0))) {
            producer.initTransactions();
            int warmUp = Math.min(WARM_UP, most / 10);
            for (int n = 0; n < warmUp; n++) {
                one(producer, topic);
            }
            most -= warmUp;
            long[] nanos = new long[Math.min(most, 1_000_000)];
            long began = System.nanoTime();
            int done = 0;
            while (done < nanos.length && System.nanoTime() - began < limit) {
                long before = System.nanoTime();
                one(producer, topic);
                nanos[done++] = System.nanoTime() - before;
            }
            double seconds = (System.nanoTime() - began) / 1e9;
            Arrays.sort(nanos, 0, done);
            return String.format(
                    "{\"transactions\": %d, \"per_second\": %.1f, \"median_ms\": %.2f, \"p99_ms\": %.2f}",
                    done, done / seconds, nanos[done / 2] / 1e6, nanos[done - 1 - done / 100] / 1e6);
        }
    }

    private static void one(KafkaProducer<String, String> producer, String topic) {
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(topic, 0, null, "one record"));
        producer.commitTransaction();
    }
}
