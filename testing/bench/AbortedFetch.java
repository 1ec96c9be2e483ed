import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The client of aborted_fetch.py, on Kafka's own client library.
 *
 *   write BOOTSTRAP TOPIC ABORTED PRODUCERS RECORDS   aborts that many transactions, commits one for every ten aborted, and a last one
 *   read BOOTSTRAP TOPIC TIMES                        reads partition 0 as read_committed up to that last record
 *
 * Each reading prints `records seconds`.
 */
public final class AbortedFetch {
  private static final int RECORD_BYTES = 100;
  private static final byte[] LAST = "last".getBytes();
  private static final Duration PATIENCE = Duration.ofSeconds(120);

  public static void main(String[] arguments) throws Exception {
    String bootstrap = arguments[1], topic = arguments[2];
    if (arguments[0].equals("write")) {
      write(bootstrap, topic, Integer.parseInt(arguments[3]), Integer.parseInt(arguments[4]), Integer.parseInt(arguments[5]));
    } else {
      for (int at = 0; at < Integer.parseInt(arguments[3]); at++) read(bootstrap, topic);
    }
  }

  private static KafkaProducer<byte[], byte[]> producer(String bootstrap, String id) {
    KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
        Map.of("bootstrap.servers", bootstrap, "transactional.id", id, "linger.ms", 0, "buffer.memory", 1 << 20), new ByteArraySerializer(),
        new ByteArraySerializer());
    producer.initTransactions();
    return producer;
  }

  private static void write(String bootstrap, String topic, int aborted, int producers, int records) throws Exception {
    AtomicInteger left = new AtomicInteger(aborted);
    List<Thread> threads = new ArrayList<>();
    for (int number = 0; number < producers; number++) {
      String id = "aborted-fetch-" + number;
      Thread thread = new Thread(() -> {
        try (KafkaProducer<byte[], byte[]> producer = producer(bootstrap, id)) {
          for (int at; (at = left.decrementAndGet()) >= 0; ) {
            transaction(producer, topic, records, false);
            if (at % 10 == 0) transaction(producer, topic, records, true);
            if (at % 5000 == 0) System.err.println(at + " transactions left");
          }
        }
      });
      thread.start();
      threads.add(thread);
    }
    for (Thread thread : threads) thread.join();
    try (KafkaProducer<byte[], byte[]> producer = producer(bootstrap, "aborted-fetch-last")) {
      producer.beginTransaction();
      producer.send(new ProducerRecord<>(topic, 0, null, LAST));
      producer.commitTransaction();
    }
  }

  private static void transaction(KafkaProducer<byte[], byte[]> producer, String topic, int records, boolean commit) {
    producer.beginTransaction();
    for (int at = 0; at < records; at++) producer.send(new ProducerRecord<>(topic, 0, null, new byte[RECORD_BYTES]));
    producer.flush();
    if (commit) producer.commitTransaction();
    else producer.abortTransaction();
  }

  private static void read(String bootstrap, String topic) {
    Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "isolation.level", "read_committed", "enable.auto.commit", false);
    try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
      TopicPartition partition = new TopicPartition(topic, 0);
      consumer.assign(List.of(partition));
      consumer.seekToBeginning(List.of(partition));
      consumer.position(partition);
      long began = System.nanoTime(), records = 0;
      boolean ended = false;
      while (!ended) {
        if (System.nanoTime() - began > PATIENCE.toNanos()) throw new IllegalStateException("no end after " + records + " records");
        for (var record : consumer.poll(Duration.ofSeconds(1))) {
          records++;
          ended |= record.value().length == LAST.length;
        }
      }
      System.out.printf("%d %.3f%n", records, (System.nanoTime() - began) / 1e9);
    }
  }
}
