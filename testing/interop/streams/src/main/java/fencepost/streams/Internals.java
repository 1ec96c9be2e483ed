package fencepost.streams;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** What the application leaves on the broker: its topics with their settings, its offsets, its transactions. */
final class Internals {
    private static final String PREFIX = Application.ID + "-";
    private static final Map<String, String> WANTED = Map.of(
        "by-word-repartition", "delete", "by-key-repartition", "delete",
        "join-left-repartition", "delete", "join-right-repartition", "delete",
        "words-changelog", "compact", "windows-changelog", "compact,delete",
        // A store of a join keeps several values for a key, so its changelog must not be compacted.
        "join-this-join-store-changelog", "delete", "join-other-join-store-changelog", "delete");

    private Internals() {
    }

    static void check(String bootstrap) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            Set<String> internal = admin.listTopics().names().get().stream().filter(n -> n.startsWith(PREFIX)).collect(Collectors.toSet());
            policies(admin, internal);
            List<TopicPartition> read = new ArrayList<>();
            Map<String, TopicDescription> described = admin.describeTopics(internal).allTopicNames().get();
            for (String topic : internal) {
                if (topic.endsWith("-repartition")) {
                    described.get(topic).partitions().forEach(p -> read.add(new TopicPartition(topic, p.partition())));
                }
            }
            purged(admin, read);
            Input.PARTITIONS.forEach((topic, partitions) -> {
                for (int p = 0; p < partitions; p++) {
                    read.add(new TopicPartition(topic, p));
                }
            });
            committed(admin, read);
            Collection<TransactionListing> transactions = admin.listTransactions().all().get();
            List<TransactionListing> open =
                transactions.stream().filter(t -> t.state() == TransactionState.ONGOING || t.state() == TransactionState.UNKNOWN).toList();
            if (!open.isEmpty()) {
                throw new Failure("open transactions: " + open);
            }
        }
    }

    private static void policies(Admin admin, Set<String> internal) throws Exception {
        Set<String> wanted = WANTED.keySet().stream().map(PREFIX::concat).collect(Collectors.toSet());
        if (!internal.equals(wanted)) {
            throw new Failure("internal topics are " + internal + ", not " + wanted);
        }
        List<ConfigResource> resources = internal.stream().map(n -> new ConfigResource(ConfigResource.Type.TOPIC, n)).toList();
        Map<ConfigResource, Config> configs = admin.describeConfigs(resources).all().get();
        for (Map.Entry<ConfigResource, Config> entry : configs.entrySet()) {
            String name = entry.getKey().name();
            String policy = entry.getValue().get("cleanup.policy").value();
            String due = WANTED.get(name.substring(PREFIX.length()));
            if (!Set.of(policy.split(",")).equals(Set.of(due.split(",")))) {
                throw new Failure(name + " has cleanup.policy " + policy + ", not " + due);
            }
            if (!entry.getValue().get("message.timestamp.type").value().equals("CreateTime")) {
                throw new Failure(name + " does not keep the times of its records");
            }
        }
    }

    /** The application deletes what it has read of its repartition topics. */
    private static void purged(Admin admin, List<TopicPartition> repartition) throws Exception {
        Map<TopicPartition, Long> starts = offsets(admin, repartition, OffsetSpec.earliest());
        Map<String, Long> deleted = new HashMap<>();
        starts.forEach((partition, start) -> deleted.merge(partition.topic(), start, Long::sum));
        deleted.forEach((topic, count) -> {
            if (count == 0) {
                throw new Failure("nothing was deleted from " + topic);
            }
        });
    }

    /** The committed offset of each partition is behind its last record; only markers follow. */
    private static void committed(Admin admin, List<TopicPartition> read) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> committed = admin.listConsumerGroupOffsets(Application.ID).partitionsToOffsetAndMetadata().get();
        Map<TopicPartition, Long> ends = offsets(admin, read, OffsetSpec.latest());
        for (TopicPartition partition : read) {
            OffsetAndMetadata at = committed.get(partition);
            // Repartition topics end in a marker, which no consumer counts as read before it has met it.
            boolean markers = partition.topic().endsWith("-repartition");
            long end = ends.get(partition);
            if (end > 0 && (at == null || at.offset() > end || !markers && at.offset() < end)) {
                throw new Failure(partition + " ends at " + end + ", the group is at " + at);
            }
        }
    }

    private static Map<TopicPartition, Long> offsets(Admin admin, Collection<TopicPartition> of, OffsetSpec spec) throws Exception {
        Map<TopicPartition, ListOffsetsResultInfo> found =
            admin.listOffsets(of.stream().collect(Collectors.toMap(p -> p, p -> spec))).all().get();
        return found.entrySet().stream().collect(Collectors.toMap(Map.Entry::getKey, e -> e.getValue().offset()));
    }
}
