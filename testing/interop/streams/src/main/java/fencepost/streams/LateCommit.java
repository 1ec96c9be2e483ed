package fencepost.streams;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * A task of Kafka Streams (exactly_once_v2) that counts ticks and records, sleeps once over the timeout of its transaction and then
 * commits it (KAFKA-20785). Fenced, the task is taken to have migrated: the thread joins again, and counts from what is
 * committed. Any other answer ends the thread.
 *
 * <p>The transaction has counts of ticks and no offsets: with offsets, their commit would be refused before, and Streams recovers.
 */
final class LateCommit {
    /** One task: what another one sends after the sleep would be refused before the commit is. */
    private static final int PARTITIONS = 1;
    private static final long PATIENCE_NANOS = 120_000_000_000L;
    private static final int RECORDS = 200;
    private static final int SLEEPS_AT = 20;
    private static final int TICK_MS = 50;
    private static final int TIMEOUT_MS = 2_000;
    private static final int COMMIT_INTERVAL_MS = 100;
    private static final String STORE = "counts";
    private static final AtomicBoolean HAS_SLEPT = new AtomicBoolean();

    private LateCommit() {
    }

    static String run(Options options) throws Exception {
        String name = "late-task-" + UUID.randomUUID();
        String bootstrap = options.text("bootstrap");
        String input = name + "-input";
        String output = name + "-output";
        createTopics(bootstrap, input, output);
        AtomicReference<Throwable> ended = new AtomicReference<>();
        AtomicInteger rebalances = new AtomicInteger();
        try (KafkaStreams streams = new KafkaStreams(topology(input, output), settings(options, name))) {
            streams.setUncaughtExceptionHandler(e -> {
                ended.set(e);
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.setStateListener((now, before) -> {
                if (now == KafkaStreams.State.REBALANCING) {
                    rebalances.incrementAndGet();
                }
            });
            streams.start();
            String seen = counts(bootstrap, input, output, ended);
            if (ended.get() == null) {
                return String.format("late task: goes on after %d rebalances, %s", rebalances.get(), seen);
            }
            Throwable cause = ended.get();
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            return "late task: ended by " + cause.getClass().getSimpleName();
        }
    }

    private static void createTopics(String bootstrap, String... names) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(Stream.of(names).map(name -> new NewTopic(name, PARTITIONS, (short) 1)).toList()).all().get();
        }
    }

    private static void fill(String bootstrap, String input) throws Exception {
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(Map.of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int n = 0; n < RECORDS; n++) {
                sent.add(producer.send(new ProducerRecord<>(input, 0, null, Integer.toString(n))));
            }
            for (Future<RecordMetadata> one : sent) {
                one.get();
            }
        }
    }

    private static Properties settings(Options options, String name) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, name);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, options.text("bootstrap"));
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, COMMIT_INTERVAL_MS);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, options.text("state-dir"));
        settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), TIMEOUT_MS);
        settings.put(StreamsConfig.producerPrefix("linger.ms"), 0);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        return settings;
    }

    private static Topology topology(String input, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(STORE), Serdes.String(), Serdes.Long()));
        KStream<String, String> records = builder.stream(input, Consumed.with(Serdes.String(), Serdes.String()));
        KStream<String, String> counted = records.process(Counter::new, STORE);
        // The counts are sent first; then the task sleeps.
        counted.to(output, Produced.with(Serdes.String(), Serdes.String()));
        counted.foreach((partition, count) -> sleepOnce(count));
        return builder.build();
    }

    private static void sleepOnce(String count) {
        if (count.equals("tick " + SLEEPS_AT) && HAS_SLEPT.compareAndSet(false, true)) {
            try {
                Thread.sleep(2 * TIMEOUT_MS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Counts the ticks and records of its partition together, and says each count. */
    private static final class Counter extends ContextualProcessor<String, String, String, String> {
        private KeyValueStore<String, Long> store;

        @Override
        public void init(ProcessorContext<String, String> context) {
            super.init(context);
            store = context.getStateStore(STORE);
            context.schedule(Duration.ofMillis(TICK_MS), PunctuationType.WALL_CLOCK_TIME, now -> count("tick", now));
        }

        @Override
        public void process(Record<String, String> one) {
            count("record", one.timestamp());
        }

        private void count(String what, long timestamp) {
            String partition = Integer.toString(context().taskId().partition());
            Long before = store.get(partition);
            long count = before == null ? 1 : before + 1;
            store.put(partition, count);
            context().forward(new Record<>(partition, what + " " + count, timestamp));
        }
    }

    /** Reads counts until a task has gone on and every record is counted: no count twice, none left out. */
    private static String counts(String bootstrap, String input, String output, AtomicReference<Throwable> ended) throws Exception {
        Map<String, Long> last = new HashMap<>();
        boolean isFilled = false;
        int records = 0;
        long deadline = System.nanoTime() + PATIENCE_NANOS;
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "isolation.level", "read_committed", "auto.offset.reset", "earliest");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(IntStream.range(0, PARTITIONS).mapToObj(n -> new TopicPartition(output, n)).toList());
            while (ended.get() == null && records < RECORDS) {
                if (System.nanoTime() > deadline) {
                    throw new Failure("the tasks came to " + last + " with " + records + " records");
                }
                for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(200))) {
                    String[] said = one.value().split(" ");
                    long count = Long.parseLong(said[1]);
                    if (count != last.merge(one.key(), 1L, Long::sum)) {
                        throw new Failure("partition " + one.key() + ": " + last.get(one.key()) + " counts, and then " + one.value());
                    }
                    records += said[0].equals("record") ? 1 : 0;
                }
                if (!isFilled && last.getOrDefault("0", 0L) > SLEEPS_AT) {
                    fill(bootstrap, input);
                    isFilled = true;
                }
            }
        }
        long ticks = last.values().stream().mapToLong(n -> n).sum() - records;
        return "every count is there once, of " + records + " records and " + ticks + " ticks";
    }
}
