package fencepost.streams;

import java.io.IOException;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;

/** One instance of the application: a word count, and a windowed join whose results are counted by window. It runs until SIGTERM. */
final class Application {
    static final String ID = "streams-interop";
    static final String WORD_COUNTS = "word-counts";
    static final String PAIRS = "pairs";
    static final String WINDOW_COUNTS = "window-counts";

    /** Nothing comes too late: what is dropped would be a loss that nobody caused. */
    private static final Duration GRACE = Duration.ofHours(1);
    private static final Duration CLOSE = Duration.ofSeconds(20);

    private Application() {
    }

    static Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        countWords(builder);
        join(builder);
        return builder.build();
    }

    private static void countWords(StreamsBuilder builder) {
        builder.stream(Input.LINES, Consumed.with(Serdes.String(), Serdes.String()))
            .flatMap((key, line) -> Arrays.stream(line.split(" ")).map(word -> KeyValue.pair(word, "")).toList())
            .groupByKey(Grouped.with("by-word", Serdes.String(), Serdes.String()))
            .count(Materialized.as("words"))
            .toStream()
            .to(WORD_COUNTS, Produced.with(Serdes.String(), Serdes.Long()));
    }

    /** A value is {@code key:number}; the key of the record says nothing, so both sides are repartitioned. */
    private static void join(StreamsBuilder builder) {
        KStream<String, String> pairs = keyed(builder, Input.LEFT).join(
            keyed(builder, Input.RIGHT),
            (left, right) -> left + "-" + right.substring(right.indexOf(':') + 1),
            JoinWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(Input.JOIN_MS), GRACE),
            StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String()).withName("join").withStoreName("join"));
        pairs.to(PAIRS, Produced.with(Serdes.String(), Serdes.String()));
        // The new key has the same text: enough to need a repartition topic before the count.
        pairs.map((key, pair) -> KeyValue.pair(key, pair))
            .groupByKey(Grouped.with("by-key", Serdes.String(), Serdes.String()))
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMillis(Input.WINDOW_MS), GRACE))
            .count(Materialized.as("windows"))
            .toStream((window, count) -> window.key() + "@" + window.window().start())
            .to(WINDOW_COUNTS, Produced.with(Serdes.String(), Serdes.Long()));
    }

    private static KStream<String, String> keyed(StreamsBuilder builder, String topic) {
        return builder.stream(topic, Consumed.with(Serdes.String(), Serdes.String()))
            .selectKey((key, value) -> value.substring(0, value.indexOf(':')));
    }

    static String run(Options options) throws InterruptedException {
        Properties settings = settings(options);
        KafkaStreams streams = new KafkaStreams(topology(), settings);
        Thread main = Thread.currentThread();
        String[] ended = {"closed"};
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        streams.setGlobalStateRestoreListener(new Restores());
        streams.setUncaughtExceptionHandler(error -> {
            StringBuilder text = new StringBuilder();
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                text.append(text.isEmpty() ? "" : " <- ").append(cause);
            }
            ended[0] = "uncaught " + text.toString().replace('\n', ' ');
            System.out.println(ended[0]);
            main.interrupt();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        // A word on the standard input asks for a clean end, and so does its end.
        Thread stdin = new Thread(() -> {
            try {
                System.in.read();
            } catch (IOException e) {
                System.out.println("stdin: " + e);
            }
            main.interrupt();
        });
        stdin.setDaemon(true);
        streams.start();
        stdin.start();
        try {
            Thread.sleep(Long.MAX_VALUE);
        } catch (InterruptedException asked) {
            if (!streams.close(CLOSE)) {
                throw new Failure("no clean end within " + CLOSE.toSeconds() + " s");
            }
        }
        if (!ended[0].equals("closed")) {
            throw new Failure(ended[0]);
        }
        return "closed";
    }

    private static Properties settings(Options options) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, ID);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, options.text("bootstrap"));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, options.text("state"));
        settings.put(StreamsConfig.CLIENT_ID_CONFIG, options.text("name"));
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, options.text("standbys", "0"));
        settings.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, options.text("group-protocol", "classic"));
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        // Without caches each word gives one update: 1, 2, 3, … in the output shows what came twice and what is missing.
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, 1000);
        // Short segments, and a cleaner that finds every one of them dirty: changelogs are compacted while they are written.
        settings.put(StreamsConfig.topicPrefix("segment.ms"), 1000);
        settings.put(StreamsConfig.topicPrefix("min.cleanable.dirty.ratio"), "0.01");
        // The shortest session that brokers allow: a killed instance is missed after six seconds.
        if (settings.get(StreamsConfig.GROUP_PROTOCOL_CONFIG).equals("classic")) {
            settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6000);
            settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 1000);
        }
        return settings;
    }
}
