package fencepost.matrix;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;

/** What is asked of every client, and how the outcome is judged. */
final class Scenarios {
    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");

    private final Client client;
    private final String scope;

    Scenarios(Client client, String scope) {
        this.client = client;
        this.scope = scope;
    }

    String run(String capability) throws Exception {
        switch (capability) {
            case "produce" -> produce();
            case "idempotent" -> idempotent();
            case "commit" -> transactions(true, true, true, true, true);
            case "abort" -> transactions(true, false, true, false, false, true);
            case "fencing" -> fencing();
            case "offsets" -> offsets();
            case "classic", "consumer" -> group(capability);
            case "admin" -> {
                return new AdminCalls(client, scope).run();
            }
            default -> throw new IllegalArgumentException("no capability named " + capability);
        }
        return capability.equals("produce") ? String.join(", ", CODECS) : "";
    }

    private void produce() throws Exception {
        client.create(3, scope);
        List<Item> sent = new ArrayList<>();
        for (String codec : CODECS) {
            List<Item> items = Item.made(codec + "-", 60, 3);
            client.send(Map.of("compression.type", codec), scope, items);
            sent.addAll(items);
        }
        client.seal(scope, 3);
        client.holds(scope, 3, false, sent);
    }

    private void idempotent() throws Exception {
        client.create(3, scope);
        List<Item> sent = Item.made("v", 3000, 3);
        client.send(Map.of("enable.idempotence", true), scope, sent);
        client.seal(scope, 3);
        client.holds(scope, 3, true, sent);
    }

    private static void transact(KafkaProducer<String, String> producer, List<String> topics, List<Item> items, boolean commits) throws Exception {
        producer.beginTransaction();
        for (String topic : topics) {
            Client.send(producer, topic, items);
        }
        if (commits) {
            producer.commitTransaction();
        } else {
            producer.abortTransaction();
        }
    }

    private void transactions(Boolean... outcomes) throws Exception {
        List<String> topics = List.of(scope + "-a", scope + "-b");
        client.create(2, topics.toArray(String[]::new));
        List<Item> everything = new ArrayList<>();
        List<Item> kept = new ArrayList<>();
        try (KafkaProducer<String, String> producer = client.transactional(scope)) {
            for (boolean commits : Arrays.asList(outcomes)) {
                List<Item> items = Item.made("t" + everything.size() + "-", 20, 2);
                transact(producer, topics, items, commits);
                everything.addAll(items);
                if (commits) {
                    kept.addAll(items);
                }
            }
        }
        for (String topic : topics) {
            client.seal(topic, 2);
            client.holds(topic, 2, true, kept);
            client.holds(topic, 2, false, everything);
        }
    }

    private void fencing() throws Exception {
        client.create(1, scope);
        List<String> topics = List.of(scope);
        try (KafkaProducer<String, String> old = client.transactional(scope)) {
            transact(old, topics, Item.made("first", 1, 1), true);
            old.beginTransaction();
            Client.send(old, scope, Item.made("open", 1, 1));
            try (KafkaProducer<String, String> next = client.transactional(scope)) {
                transact(next, topics, Item.made("next", 1, 1), true);
            }
            Throwable told = null;
            try {
                Client.send(old, scope, Item.made("late", 1, 1));
                old.commitTransaction();
            } catch (ExecutionException e) {
                told = e.getCause();
            } catch (RuntimeException e) {
                told = e;
            }
            boolean fenced = told instanceof ProducerFencedException || told instanceof InvalidProducerEpochException;
            Check.that(fenced, "the old instance is not told that it is fenced, but: %s", told);
        }
        client.seal(scope, 1);
        client.holds(scope, 1, true, List.of(Item.made("first", 1, 1).get(0), Item.made("next", 1, 1).get(0)));
    }

    /** One life of a worker: transactions until so many records have gone through. */
    private int life(int count, boolean commits) throws Exception {
        int done = 0;
        try (KafkaConsumer<String, String> consumer = client.member(scope + "-group", scope + "-in", "classic");
                KafkaProducer<String, String> producer = client.transactional(scope)) {
            while (done < count) {
                ConsumerRecords<String, String> records = consumer.poll(Client.PAUSE);
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(Item.of(record).to(scope + "-out"));
                }
                Map<TopicPartition, OffsetAndMetadata> at = new HashMap<>();
                for (TopicPartition partition : records.partitions()) {
                    at.put(partition, new OffsetAndMetadata(consumer.position(partition)));
                }
                producer.sendOffsetsToTransaction(at, consumer.groupMetadata());
                if (commits) {
                    producer.commitTransaction();
                } else {
                    producer.flush();
                    producer.abortTransaction();
                }
                done += records.count();
            }
        }
        return done;
    }

    private void offsets() throws Exception {
        String source = scope + "-in";
        String target = scope + "-out";
        client.create(2, source, target);
        List<Item> sent = Item.made("v", 60, 2);
        client.send(Map.of(), source, sent);
        int aborted = life(1, false);
        Map<Integer, Long> found = client.committed(scope + "-group", source);
        Check.that(found.isEmpty(), "after the abort offsets %s are committed", found);
        life(60, true);
        found = client.committed(scope + "-group", source);
        Check.that(found.equals(Map.of(0, 30L, 1, 30L)), "offsets %s are committed, wanted 30 and 30", found);
        client.seal(target, 2);
        client.holds(target, 2, true, sent);
        int seen = client.read(target, 2, false).values().stream().mapToInt(List::size).sum();
        Check.that(seen == 60 + aborted, "%d records were aborted and 60 committed, read_uncommitted sees %d", aborted, seen);
    }

    private void group(String protocol) throws Exception {
        client.create(4, scope);
        try (KafkaConsumer<String, String> a = client.member(scope, scope, protocol)) {
            shared(List.of(a));
            try (KafkaConsumer<String, String> b = client.member(scope, scope, protocol)) {
                shared(List.of(a, b));
                consumed(Item.made("v", 200, 4), List.of(a, b));
            }
            shared(List.of(a));
            consumed(Item.made("w", 40, 4), List.of(a));
        }
        Map<Integer, Long> found = client.committed(scope, scope);
        Check.that(found.equals(Map.of(0, 60L, 1, 60L, 2, 60L, 3, 60L)), "offsets %s are committed, wanted 60 of each partition", found);
    }

    /** Waits until the members share the four partitions evenly. */
    private static void shared(List<KafkaConsumer<String, String>> members) {
        while (true) {
            Set<TopicPartition> all = new TreeSet<>((x, y) -> x.partition() - y.partition());
            boolean even = true;
            for (KafkaConsumer<String, String> member : members) {
                ConsumerRecords<String, String> came = member.poll(Client.PAUSE);
                Check.that(came.isEmpty(), "polling gave %d records", came.count());
            }
            for (KafkaConsumer<String, String> member : members) {
                all.addAll(member.assignment());
                even &= member.assignment().size() == 4 / members.size();
            }
            if (even && all.size() == 4) {
                return;
            }
        }
    }

    /** Sends records and has the members read each of them once, in order, and commit. */
    private void consumed(List<Item> items, List<KafkaConsumer<String, String>> members) throws Exception {
        client.send(Map.of(), scope, items);
        List<Item> read = new ArrayList<>();
        while (read.size() < items.size()) {
            for (KafkaConsumer<String, String> member : members) {
                for (ConsumerRecord<String, String> record : member.poll(Client.PAUSE)) {
                    TopicPartition from = new TopicPartition(record.topic(), record.partition());
                    Check.that(member.assignment().contains(from), "a record of %s came, which is not assigned", from);
                    read.add(Item.of(record));
                }
            }
        }
        for (int p = 0; p < 4; p++) {
            int partition = p;
            List<Item> wanted = items.stream().filter(item -> item.partition() == partition).toList();
            List<Item> found = read.stream().filter(item -> item.partition() == partition).toList();
            Check.that(found.equals(wanted), "partition %d: read %s", p, found);
        }
        members.forEach(KafkaConsumer::commitSync);
    }
}
