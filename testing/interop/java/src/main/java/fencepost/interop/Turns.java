package fencepost.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * One producer that is told line by line what to do, so that clients of several kinds can take turns on one transactional id:
 * {@code open TIMEOUT_MS}, {@code begin}, {@code send PARTITION VALUE}, {@code commit}, {@code abort}, {@code versions}, {@code close}.
 * Each line is answered by one: {@code ok} and what there is to say, or the name of an exception and its message.
 */
final class Turns {
    private final Clients clients;
    private final Wire wire = Wire.listen();
    private final String topic;
    private final String id;
    private KafkaProducer<String, String> producer;

    private Turns(Options options) {
        clients = new Clients(options.text("bootstrap"));
        topic = options.text("topic");
        id = options.text("txn");
    }

    static String run(Options options) throws Exception {
        Turns turns = new Turns(options);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String said;
            try {
                said = ("ok " + turns.step(line.split(" "))).trim();
            } catch (Exception e) {
                Throwable cause = e instanceof java.util.concurrent.ExecutionException ? e.getCause() : e;
                said = (cause.getClass().getSimpleName() + " " + cause.getMessage()).replace('\n', ' ');
            }
            System.out.println(said);
        }
        turns.close();
        return "end";
    }

    private String step(String[] words) throws Exception {
        switch (words[0]) {
            case "open" -> {
                close();
                producer = clients.producer(
                        Map.of("transactional.id", id, "transaction.timeout.ms", Integer.parseInt(words[1]), "linger.ms", 0));
                producer.initTransactions();
            }
            case "begin" -> producer.beginTransaction();
            case "send" -> producer.send(new ProducerRecord<>(topic, Integer.parseInt(words[1]), null, words[2])).get();
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "versions" -> {
                return wire.take();
            }
            case "close" -> close();
            default -> throw new IllegalArgumentException("no step named " + words[0]);
        }
        return "";
    }

    private void close() {
        if (producer != null) {
            producer.close(java.time.Duration.ZERO);
            producer = null;
        }
    }
}
