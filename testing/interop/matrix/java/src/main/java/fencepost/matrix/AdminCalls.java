package fencepost.matrix;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.errors.ElectionNotNeededException;

/** What Admin has, each call with its effect. */
final class AdminCalls extends Administrator {
    AdminCalls(Client client, String topic) {
        super(client, topic);
    }

    @Override
    String run() throws Exception {
        Steps steps = new Steps();
        topics(steps);
        records(steps);
        groups(steps);
        transactions(steps);
        steps.then("describeFeatures", () -> {
            var found = admin.describeFeatures().featureMetadata().get();
            Check.that(found.finalizedFeatures().containsKey("transaction.version"), found);
        }).then("describeMetadataQuorum", () -> {
            var found = admin.describeMetadataQuorum().quorumInfo().get();
            Check.that(found.voters().size() == 1, found);
        }).then("deleteTopics", this::withoutTopic);
        return steps.names();
    }

    private void topics(Steps steps) {
        steps.then("createTopics", () -> {
            var made = admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1).configs(Map.of("cleanup.policy", "delete"))));
            made.all().get();
            Check.that(made.numPartitions(topic).get() == 1, made);
        }).then("describeCluster", () -> {
            var found = admin.describeCluster();
            Check.that(found.nodes().get().size() == 1 && found.clusterId().get() != null, found.nodes().get());
        }).then("incrementalAlterConfigs", () -> {
            var change = new AlterConfigOp(new ConfigEntry("retention.ms", "123456"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, Set.of(change))).all().get();
        }).then("describeConfigs", () -> {
            var found = admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms");
            Check.that(found.value().equals("123456") && found.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, found);
        }).then("createPartitions", () -> {
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
        }).then("listTopics", () -> {
            var found = admin.listTopics().names().get();
            Check.that(found.contains(topic), found);
        }).then("describeTopics", () -> {
            var found = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            Check.that(found.partitions().size() == 3, found);
        }).then("electLeaders", () -> {
            var found = admin.electLeaders(ElectionType.PREFERRED, Set.of(zero)).partitions().get().get(zero);
            Check.that(found == null || found.isEmpty() || found.get() instanceof ElectionNotNeededException, found);
        }).then("listPartitionReassignments", () -> {
            var found = admin.listPartitionReassignments().reassignments().get();
            Check.that(found.isEmpty(), found);
        });
    }

    private void records(Steps steps) {
        steps.then("produce", () -> {
            client.send(Map.of("enable.idempotence", true), topic, Item.made("v", 3, 1));
        }).then("describeProducers", () -> {
            var found = admin.describeProducers(Set.of(zero)).all().get().get(zero).activeProducers();
            Check.that(found.size() == 1, found);
        }).then("deleteRecords", () -> {
            var low = admin.deleteRecords(Map.of(zero, RecordsToDelete.beforeOffset(2))).lowWatermarks().get(zero).get();
            Check.that(low.lowWatermark() == 2, low);
        }).then("listOffsets", () -> {
            long first = admin.listOffsets(Map.of(zero, OffsetSpec.earliest())).partitionResult(zero).get().offset();
            long end = admin.listOffsets(Map.of(zero, OffsetSpec.latest())).partitionResult(zero).get().offset();
            Check.that(first == 2 && end == 3, "offsets %d and %d", first, end);
        }).then("describeLogDirs", this::logDirectory);
    }

    private void groups(Steps steps) {
        steps.then("alterConsumerGroupOffsets", () -> {
            admin.alterConsumerGroupOffsets(group, Map.of(zero, new OffsetAndMetadata(2, "here"))).all().get();
        }).then("listConsumerGroups", this::listed).then("describeConsumerGroups", () -> {
            var found = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            Check.that(found.members().isEmpty() && found.coordinator() != null, found);
        }).then("listConsumerGroupOffsets", () -> {
            var found = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(zero);
            Check.that(found.offset() == 2 && found.metadata().equals("here"), found);
        }).then("deleteConsumerGroups", this::withoutGroup);
    }

    private void transactions(Steps steps) throws Exception {
        try (KafkaProducer<String, String> producer = client.transactional(topic)) {
            producer.beginTransaction();
            Client.send(producer, topic, Item.made("open", 1, 1));
            steps.then("listTransactions", () -> {
                var found = admin.listTransactions().all().get();
                Check.that(found.stream().anyMatch(listed -> listed.transactionalId().equals(topic)), found);
            }).then("describeTransactions", () -> {
                var found = admin.describeTransactions(List.of(topic)).all().get().get(topic);
                Check.that(found.state().toString().equals("Ongoing") && found.topicPartitions().equals(Set.of(zero)), found);
            }).then("fenceProducers", () -> {
                admin.fenceProducers(List.of(topic)).all().get();
                try {
                    Client.send(producer, topic, Item.made("late", 1, 1));
                    Check.that(false, "the fenced producer could send");
                } catch (ExecutionException e) {
                    Check.that(e.getCause().toString().matches(".*(Fenced|Epoch).*"), e);
                }
            });
        }
    }
}
